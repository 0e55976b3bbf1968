/** From this width on the panel stands beside the page; below it covers the page. As in PageFrame.module.css. */
export const WIDE = "(min-width: 64rem)";
