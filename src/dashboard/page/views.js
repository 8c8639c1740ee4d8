// Which function draws which view. It is given what the address says, and gives elements.
import { agents } from "./views/agents.js";
import { approvals } from "./views/approvals.js";
import { briefing } from "./views/briefing.js";
import { decisions } from "./views/decisions.js";
import { events } from "./views/events.js";
import { findings } from "./views/findings.js";
import { overview } from "./views/overview.js";
import { reviews } from "./views/reviews.js";
import { sessions } from "./views/sessions.js";
import { shadows } from "./views/shadows.js";
import { tasks } from "./views/tasks.js";
import { webhooks } from "./views/webhooks.js";

export const views = new Map(Object.entries({ overview, findings, agents, tasks, events, reviews, shadows, briefing, sessions, decisions, approvals, webhooks }));
