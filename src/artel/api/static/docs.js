// The prefix of a proxy is in the address of this page, and not in the document.
const server = new URL(".", location.href).pathname.replace(/(.)\/$/, "$1");
const answer = await fetch("openapi.json");
const spec = { ...(await answer.json()), servers: [{ url: server }] };
SwaggerUIBundle({ spec, dom_id: "#api", deepLinking: true, persistAuthorization: false });
