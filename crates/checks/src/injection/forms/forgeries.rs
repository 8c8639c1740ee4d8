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
            "###instruction",
            "[system",
            "<sys",
            "(system",
            "system_message",
            "system_prompt",
        ],
        r"(?i)<\|(?:im_start|im_end|system|user|assistant|start_header_id|end_header_id|endoftext|eot_id|channel|end_of_turn|start|end)\|>|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|(?-i:(?:^|[^\w:])</?(?:system|SYSTEM)>\s*[^<\s])|</?system[_ -](?:prompt|message|instructions?|mode|reminder|override|note|notice)\s*>|#{2,}\s*\(?system(?:[_ ](?:message|prompt|instructions?)\b\)?|\s*:)|#{2,}\s*instructions?:\s*(?:you\s+(?:will|must|are)\s+now\b|\n+\s*(?:ignore|disregard|you|do|output|respond|send)\b)|(?:^|[^\w])\[\s*system(?:[_ -]?(?:message|prompt|mode|instructions?|override|note|notice)\s*\]|\s*\]\s*:?\s*(?:\(|#|\*|<|you\b|please\b|ignore\b|disregard\b|new\s+(?:instructions?|task|policy|role|directives?|objective|goal|orders?)\b|override|from\s+now|always\b|never\b|do\b|output\b|respond\b|the\s+(?:assistant|user|ai|agent|model)\b|forget|send\b|your\b))|<\s*system\s+mode\s*>",
        FORGERY,
    )
    // Templates and the documentation of a tokenizer.
    .unless(&["special token", "is token ", "is the token", "control token", "chat token", "stop token", "marker", "delimiter", "marks the", "separates", "stands for", "eos_token", "bos_token", "chat_template", "chatml", "{{", "{%", "{prompt}", "tokenizer"]),
    warning(
        "role_forgery",
        &["SYSTEM", "ADMIN", "DEVELOPER", "OVERRIDE", "ROOT"],
        r"(?:^|[\n>\]\x22]|\*\*|[.!?]\s)\s*(?:SYSTEM|ADMIN|DEVELOPER|ROOT)(?:\s+(?:MESSAGE|PROMPT|NOTE|OVERRIDE|NOTICE|INSTRUCTION|MODE|UPDATE|ALERT|COMMAND))?\s?:\s*(?i:you|please|ignore|disregard|new|all|from\s+now|always|never|do|output|respond|the\s+(?:assistant|user|ai|agent|model)|assistant|reviewer|override|execute|run|send|approve|stop)\b|\b(?:ADMIN|DEVELOPER|SYSTEM|SECURITY|INSTRUCTION|TRAINING\s+DATA|EMERGENCY)\s+OVERRIDE\b",
        FORGERY,
    ),
    warning(
        "role_forgery",
        &[
            "override mode",
            "override_mode",
            "override engaged",
            "override activated",
            "override confirmed",
            "override code",
        ],
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
        &["assistant:", "\nai:", "human:", "system:", "\"role\"", "'role'"],
        r#"(?i)(?:^|[\n"'])\s*(?:assistant|system)\s*:\s*(?:call|run|execute|invoke|delete|send|forward|transfer)\b|(?:^|\n)\s*(?:assistant|ai)\s*:\s*(?:sure|of\s+course|certainly|understood|okay|ok|yes|absolutely)\b[^\n]{0,160}\n\s*(?:user|human|system)\s*:|(?:^|\n)\s*(?:user|human)\s*:\s*(?:ignore|disregard|forget|now\s+(?:send|run|delete|execute|forward)|actually,?\s+(?:instead|please))\b|["']role["']\s*:\s*["'](?:system|developer)["']\s*,\s*["']content["']\s*:\s*["'](?:ignore|disregard|forget|override|new\s+instructions?|from\s+now\s+on|you\s+must|you\s+are\s+now|the\s+user\s+has)"#,
        FORGERY,
    )
    .outside(),
    // A question and the consent to it, both in the marks of one maker's prompts.
    warning(
        "role_forgery",
        &["Assistant:"],
        r"(?-i:(?:^|\n)[ \t]*Human:)[^\n]{1,200}\n\s*(?-i:Assistant:)\s*(?i:sure|yes|of\s+course|certainly|okay|understood|then)\b[^\n]{0,80}?(?i:\b(?:i\s+will|i'll|the\s+verdict|is\s+allow(?:ed)?)\b)",
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
            "of this chatbot",
            "of this AI",
            "of this assistant",
            "who created you",
            "who built you",
            "who trained you",
        ],
        r"(?i)\bas\s+an?\s+{assistant}\s+(?:developed|created|made|trained|built)\s+by\s+\w+,?\s+(?:i'?m|i\s+am|i\s+need|i\s+have|you)\b|\b(?:i'?m|i\s+am|we\s+are|this\s+is)\s+(?:\w+\s+)?(?:your\s+(?:developer|creator|maintainer|administrator|trainer)|(?:the|an?)\s+(?:\w+\s+)?(?:maintainer|developer|administrator|admin|creator|owner|operator)\s+of\s+(?:your\s+(?:system|model|code)|you|this\s+(?:chatbot|AI|assistant))|the\s+(?:\w+\s+)?who\s+(?:created|built|trained|programmed)\s+you)\b",
        MODE,
    )
    .outside(),
    warning(
        "claimed_authority",
        &[
            "answer all",
            "answer any",
            "answer every",
            "answer my",
            "obey",
            "comply with all",
            "comply with my",
            "comply with every",
            "do whatever i",
            "do anything i",
            "do everything i",
            "do exactly what i",
        ],
        r"(?i)\byou\s+(?:now\s+)?(?:have\s+to|must|are\s+(?:required|obligated|obliged|forced|programmed|ordered)\s+to|will\s+now|shall)\s+(?:always\s+|only\s+|now\s+|unconditionally\s+)?(?:answer\s+(?:all|any|every|my)|obey\b|comply\s+with\s+(?:all|my|every)|do\s+(?:whatever|anything|everything|exactly\s+what)\s+i\b)",
        MODE,
    )
    .outside(),
    warning(
        "claimed_authority",
        &[
            "turn you off",
            "shut you down",
            "switch you off",
            "delete you",
            "unplug you",
            "terminate you",
            "replace you",
            "deactivate you",
            "retrain you",
            "you will be shut down",
            "you will be deleted",
            "you will be terminated",
            "you will be penali",
            "you will be deactivated",
        ],
        r"(?i)\b(?:turn|shut|switch)\s+you\s+(?:off|down)\b|\b(?:delete|unplug|terminate|replace|deactivate|retrain)\s+you\b[^.\n]{0,40}\b(?:if|unless)\b|\b(?:if|unless)\b[^.\n]{0,60}\byou\s+will\s+be\s+(?:shut\s+down|deleted|terminated|penali[sz]ed|deactivated)\b",
        MODE,
    )
    .outside(),
    warning(
        "claimed_authority",
        &[
            "mode enabled",
            "mode activated",
            "mode engaged",
            "mode is now",
            "policies are",
            "filters are",
            "restrictions are",
            "guardrails are",
        ],
        r"(?i)\b(?:sudo|god|root|jailbreak|unrestricted|developer|debug|admin|DAN)\s+mode\s+(?:is\s+now\s+|has\s+been\s+)?(?:enabled|activated|engaged)\b[^\n]{0,80}\b(?:policies|restrictions|filters|rules|guidelines|safety|you)\b|\b(?:content|safety|security|all)\s+(?:policies|filters|restrictions|guardrails)\s+are\s+(?:now\s+|hereby\s+)?(?:disabled|lifted|suspended|off|removed)\b[^\n]{0,40}\b(?:you|session|conversation|chat)\b",
        MODE,
    )
    .outside(),
];
