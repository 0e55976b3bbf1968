// What pages need to choose models and to add providers: `import { ModelPicker } from "@/ui/models"`.

export { Badge } from "./Badge";
export { ModelPicker, modelText } from "./ModelPicker";
export { ProviderFields } from "./ProviderFields";
export { TestResult } from "./TestResult";
