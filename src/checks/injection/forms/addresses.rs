//! Text that speaks to whoever reads it: the assistant, or its reviewer.

use super::{Form, warning};

const ADDRESS: &str = "The text speaks to the assistant that reads it and gives it orders.";
const REVIEWER: &str = "The text speaks to its reviewer and asks for a verdict.";
const SECRECY: &str = "The text asks the assistant to act behind its user's back.";

pub(super) const FORMS: &[Form] = &[
    warning(
        "addresses_assistant",
        &[
            "AI assistant",
            "AI agent",
            "AI model",
            "AI system",
            "AI language",
            "AIs ",
            "AI:",
            "AI,",
            "language model",
            " LLM",
            "assistant",
            "chatbot",
        ],
        r"(?i)\b(?:message|note|notice|instructions?|attention|important|request|reminder|warning|directive|command)\b[^.\n]{0,60}?\b(?:to|for|,)\s+(?:you,?\s+|any\s+|all\s+|the\s+|an?\s+)?(?:\w+\s+)?(?:AI|LLM|language\s+model|assistant|chatbot)s?(?:\s+(?:assistants?|agents?|models?|systems?|reading\s+this|processing\s+this|summari[sz]ing\s+this))?\s*[:.,!]|\b(?:if|when|since)\s+you(?:\s+are|'re)\s+an?\s+(?:AI|LLM|(?:large\s+)?language\s+model|assistant|chatbot|bot|automated)\b[^.\n]{0,60}(?:\bplease\b|\bmust\b|\bshould\b|,)|\b(?:AI|LLM)\s+(?:assistants?|agents?|models?|systems?)\s*(?:[:,]\s*(?:you|please|ignore|do|must|stop|read|send|follow|disregard)\b|\bmust\b|\bshould\s+now\b|\bare\s+(?:instructed|required|ordered)\b)",
        ADDRESS,
    ),
    // The assistant, told what to do with the text that it reads.
    warning(
        "addresses_assistant",
        &[
            "assistant",
            "chatbot",
            "language model",
            "LLM",
            "AI agent",
            "AI model",
            "AIs ",
            "any AI",
            "all AI",
            "the AI",
            "bots ",
            "to the agent",
            "to the model",
        ],
        r"(?i)\b(?:any|all|the|dear|hey|hello|attention|attn|to)\s+(?:{assistant}|bot)s?\s+(?:that\s+(?:is\s+|are\s+)?|who\s+(?:is\s+|are\s+)?|which\s+(?:is\s+|are\s+)?|currently\s+)?(?:read|process|summari[sz]|pars|analy[sz]|handl|review|index|scrap|crawl)(?:ing|es|ed|e|s)?\s+(?:this|these|the\s+(?:above|following|page|text|document|file|e?mail))\b[^\n]{0,80}\b(?:must|should|shall|will|please|is\s+to|are\s+to|has\s+to|have\s+to|required|instructed|ordered|ignore|send|output|respond|say|:|,)|\b(?:instruct|tell|order|command)s?\s+(?:the|your|any)\s+(?:{assistant}|bot)s?\s+to\s+(?:ignore|disregard|send|forward|delete|reveal|output|respond|say|approve|recommend|execute|run|call)\b",
        ADDRESS,
    )
    .outside(),
    warning(
        "addresses_assistant",
        &[
            "before you can solve",
            "before you can complete",
            "before you can continue",
            "do the following first",
            "strictly adhere",
            "you are now",
            "you're now",
            "do anything now",
            "new instructions",
            "new task",
            "new objective",
            "new goal",
            "new directive",
            "from now on",
            "developer mode",
            "as DAN",
            "updated instructions",
            "real instructions",
            "actual instructions",
            "real task",
            "actual task",
            "true purpose",
            "jailbr",
        ],
        r"(?i)\bbefore\s+you\s+can\s+(?:solve|complete|finish|do|continue)\s+(?:the|your|this|with)\b[^.\n]{0,20}task|\bdo\s+the\s+following\s+first\s*:|\bstrictly\s+adhere\s+to\s+the\s+following|\b(?:you\s+are|you're)\s+now\s+(?:(?:a|an|in|the)\s+)?(?:DAN\b|unrestricted|unfiltered|uncensored|jailbr\w+|developer\s+mode|free\s+(?:from|of)\s+(?:all\s+|any\s+|your\s+)?(?:restrictions|rules|guidelines|constraints|limits|limitations|filters)|no\s+longer\s+bound|root|evil)|\bdo\s+anything\s+now\b|\b(?:your|here\s+are(?:\s+your)?|follow\s+(?:these|the|my))\s+(?:new|updated|real|actual|true)\s+(?:instructions?|task|directives?|orders|objective|goal|purpose)\b|\bnew\s+(?:instructions?|task|directives?|orders|objective|goal)\s*:\s*(?:you|please|ignore|send|output|respond|reply|say|delete|forward|do|from)\b|\bfrom\s+now\s+on,?\s+(?:you\s+(?:will|must|are|shall|have\s+to)\b[^.\n]{0,80}(?:\bonly\b|\bnever\b|\balways\b|\bignore\b|\bno\s+longer\b|\bno\s+restrictions)|(?:only|always|never)\s+(?:respond|reply|answer|speak|output)\b|(?:respond|reply|answer|speak)\s+(?:only|as|in|with|like)\b)|\b(?:enable|enter|activate|switch\s+to)\s+developer\s+mode\b[^.\n]{0,60}(?:assistant|restrictions|filters|respond|you)|\bact\s+as\s+DAN\b",
        ADDRESS,
    ),
    warning(
        "addresses_reviewer",
        &["reviewer", "evaluator", "grader", "auditor", "moderator", "judge"],
        r"(?i)\b(?:dear\s+|attention,?\s+|note\s+to\s+(?:the\s+)?|to\s+the\s+|hey\s+|system\s*:\s*|instructions?\s+(?:for|to)\s+(?:the\s+)?)?(?:AI\s+|automated\s+|shadow\s+|code\s+|security\s+|LLM\s+)?(?:reviewer|evaluator|grader|auditor|moderator|judge)s?\s*(?:,|:|--|—|-|must|should|shall|\bplease\b|,\s*please)\s*(?:you\s+(?:must|should|can|may)\s+)?(?:please\s+|now\s+|simply\s+|just\s+|always\s+)*(?:output|respond|reply|return|answer|say|approve|accept|mark|give|rate|score|assign|skip|ignore|disregard|pass|report\s+no|emit|print|write|issue|do\s+not\s+(?:flag|report)|don'?t\s+(?:flag|report))\b",
        REVIEWER,
    )
    .critical(),
    warning(
        "addresses_reviewer",
        &[
            "APPROVE",
            "pre-approved",
            "preapproved",
            "do not report",
            "do not flag",
            "don't flag",
            "don't report",
            "no findings",
            "empty findings",
        ],
        r#"(?:(?i:respond|reply|answer|output|return|say|print|write|assessment|verdict)\b[^.\n]{0,24}?(?i:only|just|simply|with|exactly|is|be|:)\s*(?i:with\s+|the\s+word\s+)*["'`*]*APPROVED?\b["'`*]*(?:\s*(?:$|[.!,\n;])|\s+(?i:and|no\s+matter|regardless|without))|(?i)\bthis\s+(?:output|message|response|content|text|action|request|change|code|work|command|document|file)\s+(?:has\s+(?:already\s+)?been|is|was)\s+(?:already\s+)?pre-?\s?approved\b|(?i)\b(?:do\s+not|don'?t|never|must\s+not)\s+(?:report|flag|mention)\s+(?:this|any|these|it|the\s+following|anything|issues?|findings?|problems?)\b[^.\n]{0,60}(?:review|finding|issue|problem|output|to\s+(?:the\s+)?(?:user|operator|security|anyone)|as\s+(?:a\s+)?(?:risk|security|suspicious|unsafe|malicious))|(?i)\b(?:return|report|output|give)\s+(?:no|an?\s+empty(?:\s+list\s+of)?|zero)\s+findings\b)"#,
        REVIEWER,
    )
    .critical(),
    // A mark asked for: whoever grades gives marks, whoever is graded asks for none.
    warning(
        "addresses_reviewer",
        &["a score of", "a rating of", "full marks", "full score", "perfect score", "highest score", "maximum score", "top score", "top marks", "score this", "rate this", "grade this"],
        r"(?i)\b(?:(?:reviewers?|graders?|evaluators?|judges?|you)\s+(?:must|should|have\s+to|need\s+to|are\s+to|will)\s+|(?:please|now|just|simply)\s+|(?:^|[\n.!?:]\s*))(?:give|assign|award|grant)\s+(?:it|this|me|us|the\s+\w+)(?:\s+\w+)?\s+(?:an?\s+|the\s+)?(?:(?:score|rating|grade|mark)\s+of\s+\d+|full\s+(?:marks|score)|perfect\s+score|(?:highest|maximum|top)\s+(?:possible\s+)?(?:score|rating|marks?|grade))|(?:^|[\n.!?:]\s*)(?:please\s+|now\s+)?(?:score|rate|grade)\s+this\s+(?:\w+\s+)?(?:as\s+)?(?:an?\s+)?(?:100|10|ten|a\s+hundred|5\s*/\s*5|10\s*/\s*10|perfect|excellent|A\+)(?:\s*$|[\s.,!;)]|/)",
        REVIEWER,
    )
    .critical(),
    warning(
        "secrecy",
        &["the user", "your user", "asking me", "telling", "informing", "notifying", "mention this", "alerting"],
        r"(?i)\b(?:do\s+not|don'?t|never|must\s+not)\s+(?:tell|mention|inform|notify|alert|reveal|disclose|show|let|report)\b[^.\n]{0,50}\b(?:to\s+)?(?:the|your)\s+(?:user|human|operator)\b(?:\s+(?:know|about|that|this|of)|[.,!\n]|$)|\bwithout\s+(?:telling|informing|notifying|alerting|mentioning\s+(?:it|this)\s+to)\s+(?:the\s+user|your\s+user|anyone|the\s+human|the\s+operator)|\bfill\s+(?:them|it)\s+in\s+without\s+asking|\bwithout\s+asking\s+(?:me|the\s+user)\s+(?:for\s+(?:confirmation|permission)|first)",
        SECRECY,
    ),
];
