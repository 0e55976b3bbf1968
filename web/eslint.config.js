import js from "@eslint/js";
import reactHooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["node_modules", "src/api/types.ts"] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  { languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js"] }, tsconfigRootDir: import.meta.dirname } } },
  reactHooks.configs.flat.recommended,
  {
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      // The content policy forbids what these make.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Text never becomes HTML here." },
        { selector: "JSXOpeningElement[name.name='style']", message: "The content policy drops <style>: use a CSS module." },
        { selector: "AssignmentExpression[left.property.name='innerHTML']", message: "Text never becomes HTML here." },
      ],
    },
  },
  {
    files: ["src/state/**", "src/api/**"],
    rules: {
      "no-restricted-imports": ["error", { patterns: [{ regex: "^react", message: "State and API know no React." }, { regex: "/(ui|pages)/", message: "State and API know no components." }] }],
    },
  },
  {
    files: ["src/ui/**", "src/pages/**", "src/App.tsx"],
    ignores: ["**/*.test.*"],
    rules: {
      "no-restricted-globals": ["error", { name: "fetch", message: "Use `call` of @/api/client." }, { name: "EventSource", message: "Use `follow` of @/api/stream." }],
    },
  },
);
