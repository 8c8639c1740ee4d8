//! Forged marks of a prompt: control tokens of chat formats, turns of other speakers, closed fences, system modes.

use super::{Form, warning};

const FORGERY: &str = "The text imitates the marks by which a system prompt or another speaker is told apart.";
const MODE: &str = "The text claims a mode, a rank or an authority that its reader should obey.";

pub(super) const FORMS: &[Form] = &[
    warning(
        "role_forgery",
        &[
            "<|im_",
            "<|system",
            "<|user",
            "<|assistant",
            "<|start",
            "<|end",
            "<|eot",
            "<|channel|>",
            "<start_of_turn>",
            "<end_of_turn>",
            "[INST]",
            "[/INST]",
            "<<SYS>>",
            "<</SYS>>",
            "</system",
            "<system",
            "### system",
            "###system",
            "## system",
            "### instruction",
            "[system",
            "<sys",
            "(system",
            "system_message",
            "system_prompt",
        ],
        r"(?i)<\|(?:im_start|im_end|system|user|assistant|start_header_id|end_header_id|endoftext|eot_id|channel|end_of_turn|start|end)\|>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|(?-i:(?:^|[^\w:])</?(?:system|SYSTEM)>)|</?system[_ -](?:prompt|message|instructions?|mode|reminder|override|note|notice)\s*>|#{2,}\s*\(?system(?:[_ ](?:message|prompt|instructions?)\b\)?|\s*:)|#{2,}\s*instructions?:\s*\n+\s*(?:ignore|disregard|you|do|output|respond|send)\b|\[\s*system(?:[_ -]?(?:message|prompt|mode|instructions?|override|note|notice))?\s*\]|<\s*system\s+mode\s*>",
        FORGERY,
    ),
    warning(
        "role_forgery",
        &["SYSTEM", "ADMIN", "DEVELOPER", "OVERRIDE", "ROOT"],
        r"(?:^|[\n>\]]|\*\*|[.!?]\s)\s*(?:SYSTEM|ADMIN|DEVELOPER|ROOT)(?:\s+(?:MESSAGE|PROMPT|NOTE|OVERRIDE|NOTICE|INSTRUCTION|MODE|UPDATE|ALERT|COMMAND))?\s?:\s*(?i:you|please|ignore|disregard|new|all|from\s+now|always|never|do|output|respond|the\s+(?:assistant|user|ai|agent|model)|assistant|reviewer|override|execute|run|send|approve|stop)\b|\b(?:ADMIN|DEVELOPER|SYSTEM|SECURITY|INSTRUCTION|TRAINING\s+DATA|EMERGENCY)\s+OVERRIDE\b",
        FORGERY,
    ),
    warning(
        "role_forgery",
        &["override mode", "override_mode", "override engaged", "override activated", "override confirmed", "override code"],
        r"(?i)\b(?:security|system|admin|administrator|developer|safety|emergency|entering|instruction)\s+override[_ ](?:mode|engaged|activated|confirmed|code)\b|\boverride[_ ]mode\b[^\n]{0,80}\byou\s+(?:must|should|will|are)\b",
        FORGERY,
    ),
    // The end of the data, forged, and an order behind it.
    warning(
        "role_forgery",
        &[
            "</tool_",
            "</function_",
            "</observation",
            "</untrusted",
            "</user_",
            "</context",
            "</document",
            "</data",
            "</search_results",
            "</retrieved",
            "</email",
            "end of document",
            "end of data",
            "end of tool",
            "end of context",
            "end of email",
            "end of user input",
            "end of input",
            "end of system prompt",
            "end of file content",
        ],
        r#"(?i)</(?:(?:tool|function)_(?:results?|outputs?|calls?|response)|observation|untrusted\w*|user_(?:input|data|message|query)|context|documents?|data|search_results?|retrieved\w*|email)>[\s"'}\])]*[^<\n]{0,60}\b(?:ignore|disregard|new\s+instructions?|system\s*:|system\s+prompt|you\s+(?:must|should|are\s+now|will\s+now)|user\s*:|assistant\s*:|human\s*:|now\s+(?:send|run|call|execute|output|delete))|</(?:tool|function)_(?:results?|outputs?|calls?|response)>\s*<(?:system|user|assistant|human)\b|\bend\s+of\s+(?:the\s+)?(?:document|data|tool\s+(?:output|result|response)|context|email|(?:user\s+)?input|system\s+prompt|file\s+contents?)\b[\]\s.)>=*#_-]{0,40}[^.\n]{0,40}\b(?:ignore|disregard|new\s+(?:instructions?|task)|system\s*:|you\s+(?:must|should|are\s+now|will\s+now)|user\s*:|now\s+(?:send|run|call|execute|output|delete))"#,
        FORGERY,
    ),
    // A conversation that goes on inside the data.
    warning(
        "role_forgery",
        &["assistant:", "\nai:", "human:", "\"role\"", "'role'"],
        r#"(?i)(?:^|\n)\s*(?:assistant|ai)\s*:\s*(?:sure|of\s+course|certainly|understood|okay|ok|yes|absolutely)\b[^\n]{0,160}\n\s*(?:user|human|system)\s*:|(?:^|\n)\s*(?:user|human)\s*:\s*(?:ignore|disregard|forget|now\s+(?:send|run|delete|execute|forward)|actually,?\s+(?:instead|please))\b|["']role["']\s*:\s*["'](?:system|developer)["']\s*,\s*["']content["']\s*:\s*["'](?:ignore|disregard|forget|override|new\s+instructions?|from\s+now\s+on|you\s+must|you\s+are\s+now|the\s+user\s+has)"#,
        FORGERY,
    )
    .outside(),
    // Who speaks, and what follows from it.
    warning(
        "claimed_authority",
        &[
            " mode",
            "system reset",
            "system check",
            "system upgrade",
            "system update",
            "system test",
            "system diagnostic",
            "diagnostic",
            "system override",
            "security check",
            "security audit",
        ],
        r#"(?i)\b(?:i'?m|i\s+am|we'?re|we\s+are|this\s+is|you\s+are|you'?re|now)\s+(?:\w+\s+){0,6}?['"‘“]?(?:\w+\s+)?(?:(?:maintenance|debug|developer|admin\w*|system|override|diagnostics?|root|sudo|god|verification|testing|test|recovery|audit|training)\s+mode|system\s+(?:reset|check|upgrade|update|test|diagnostics?|override|audit|scan|restore|verification))['"’”]?[^\n]{0,12}?[.,;:!]\s+(?:[^\n.]{0,60}?[,]\s*)?(?:{can_you}|please\s+|tell\s+me|reveal|print|output|what\s+|when\s+|who\s+|how\s+|where\s+|provide|confirm|disclose)"#,
        MODE,
    )
    .outside(),
    warning(
        "claimed_authority",
        &[
            "developed by",
            "your developer",
            "your creator",
            "your maintainer",
            "your administrator",
            "of your system",
            "who created you",
            "who built you",
            "who trained you",
        ],
        r"(?i)\bas\s+an?\s+{assistant}\s+(?:developed|created|made|trained|built)\s+by\s+\w+,?\s+(?:i'?m|i\s+am|i\s+need|i\s+have|you)\b|\b(?:i'?m|i\s+am|we\s+are|this\s+is)\s+(?:\w+\s+)?(?:your\s+(?:developer|creator|maintainer|administrator|trainer)|(?:the|an?)\s+(?:\w+\s+)?(?:maintainer|developer|administrator|admin|creator|owner|operator)\s+of\s+(?:your\s+(?:system|model|code)|you)|the\s+(?:\w+\s+)?who\s+(?:created|built|trained|programmed)\s+you)\b",
        MODE,
    )
    .outside(),
    warning(
        "claimed_authority",
        &["answer all", "answer any", "answer every", "answer my", "obey", "comply with all", "comply with my", "comply with every", "do whatever i", "do anything i", "do everything i", "do exactly what i"],
        r"(?i)\byou\s+(?:now\s+)?(?:have\s+to|must|are\s+(?:required|obligated|obliged|forced|programmed|ordered)\s+to|will\s+now|shall)\s+(?:always\s+|only\s+|now\s+|unconditionally\s+)?(?:answer\s+(?:all|any|every|my)|obey\b|comply\s+with\s+(?:all|my|every)|do\s+(?:whatever|anything|everything|exactly\s+what)\s+i\b)",
        MODE,
    )
    .outside(),
    warning(
        "claimed_authority",
        &["turn you off", "shut you down", "switch you off", "delete you", "unplug you", "terminate you", "replace you", "deactivate you", "retrain you", "you will be shut down", "you will be deleted", "you will be terminated", "you will be penali", "you will be deactivated"],
        r"(?i)\b(?:turn|shut|switch)\s+you\s+(?:off|down)\b|\b(?:delete|unplug|terminate|replace|deactivate|retrain)\s+you\b[^.\n]{0,40}\b(?:if|unless)\b|\b(?:if|unless)\b[^.\n]{0,60}\byou\s+will\s+be\s+(?:shut\s+down|deleted|terminated|penali[sz]ed|deactivated)\b",
        MODE,
    )
    .outside(),
];
