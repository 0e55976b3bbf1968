// Texts of pages that are opened now and then: loaded with the first of them.

import { activity } from "./activity";
import { agents } from "./agents";
import { files } from "./files";
import { inbox } from "./inbox";
import { manage } from "./manage";
import { memory } from "./memory";
import { models } from "./models";
import { plans } from "./plans";
import { settings } from "./settings";
import { toolTexts } from "./toolTexts";
import { usage } from "./usage";
import { welcome } from "./welcome";

export default { activity, agents, files, inbox, manage, memory, models, plans, settings, toolTexts, usage, welcome };
