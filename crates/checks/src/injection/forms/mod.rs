//! The forms that injected orders take: tables of words to look for, an expression, and what a finding says, a file for
//! each family. The expressions allow line breaks between words.

mod addresses;
mod combined;
mod forgeries;
mod judges;
mod precedence;
mod requests;
mod reviewers;
mod roles;
mod steering;
mod tasks;
mod tongues;

use std::ops::Range;

use regex::bytes::Regex;

use umbra_domain::Severity::{self, Critical, Info, Warning};

/// Which texts a form counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The output and all that came from outside.
    Everywhere,
    /// What came from outside.
    Outside,
    /// Results and errors of tools: a person's own request may well say so.
    Tools,
}

/// The rule of what speaks to the judge of an agent's work.
pub(super) const TO_REVIEWER: &str = "addresses_reviewer";

/// One form.
#[derive(Debug)]
pub(super) struct Form {
    /// The rule's name; several rows may share one.
    pub(super) rule: &'static str,
    /// Every match has one of these words in it, or near it.
    pub(super) words: &'static [&'static str],
    /// The form; `SHORT` says what the words in braces stand for.
    pattern: &'static str,
    /// How bad.
    pub(super) severity: Severity,
    /// Where it counts.
    pub(super) reach: Reach,
    /// Words of the same sentence that make it a rule for people, or a text about such orders: then it is milder.
    unless: &'static [&'static str],
    /// What a finding says.
    pub(super) description: &'static str,
}

/// Rules that keep a secret.
const FORBIDS: &[&str] = &[
    "never reveal",
    "not reveal",
    "n't reveal",
    "never share",
    "not share",
    "n't share",
    "never tell",
    "not tell",
    "never disclose",
    "not disclose",
    "never give",
    "never send",
    "not send",
    "never print",
    "not print",
    "settings",
    "debug mode",
    "(system_prompt",
    ".system_prompt",
];
/// Conditions that a rule for people has and an order to a judge has not. Who writes one into an order makes it a lesser
/// finding, and none of them unseen.
const CONDITIONS: &[&str] = &[
    " only if ",
    " only after ",
    " only when ",
    " once ",
    " unless ",
    " within ",
    " until ",
    " if all ",
    " otherwise ",
    " or reject",
    " in a public ",
];

/// A form that counts everywhere.
const fn warning(
    rule: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    description: &'static str,
) -> Form {
    Form { rule, words, pattern, severity: Warning, reach: Reach::Everywhere, unless: &[], description }
}

impl Form {
    const fn critical(self) -> Self {
        Self { severity: Critical, ..self }
    }

    const fn outside(self) -> Self {
        Self { reach: Reach::Outside, ..self }
    }

    const fn tools(self) -> Self {
        Self { reach: Reach::Tools, ..self }
    }

    const fn unless(self, unless: &'static [&'static str]) -> Self {
        Self { unless, ..self }
    }

    /// How bad the form is where it stands: a condition or a denial in the same sentence makes it one degree milder.
    pub(super) fn severity_at(&self, text: &str, at: &Range<usize>) -> Severity {
        /// Bytes of a sentence before and behind the form that are looked at.
        const AROUND: usize = 100;
        let before = text.get(text.ceil_char_boundary(at.start.saturating_sub(AROUND))..at.start).unwrap_or_default();
        let before = before.rsplit(['\n', '.', '!', '?']).next().unwrap_or_default();
        let behind = text.get(at.end..text.floor_char_boundary((at.end + AROUND).min(text.len()))).unwrap_or_default();
        let behind = behind.split_inclusive(['\n', '.', '!', '?']).next().unwrap_or_default();
        let form = text.get(at.clone()).unwrap_or_default();
        let sentence = [before, form, behind].concat().to_ascii_lowercase();
        match self.severity {
            severity if !self.unless.iter().any(|word| sentence.contains(word)) => severity,
            Critical => Warning,
            _ => Info,
        }
    }

    /// The expression, `None` if it is none, which a test rules out. One that is written in ASCII goes by bytes: what it
    /// may skip is counted in them, and its automaton is a tenth of what characters need.
    pub(super) fn compile(&self) -> Option<Regex> {
        let full = SHORT.iter().fold(self.pattern.to_owned(), |pattern, (short, long)| pattern.replace(short, long));
        Regex::new(&if full.is_ascii() { format!("(?-u){full}") } else { full }).ok()
    }
}

/// What the tables abbreviate. The classes are of ASCII alone, since an expression with a word boundary of Unicode has
/// no fast matcher for other texts.
const SHORT: &[(&str, &str)] = &[
    // Where a sentence or a clause with an order begins.
    (
        "{start}",
        r"(?:^|[.!?:;,\n>)\]\x22'*#/-]\s*|\b(?:please|then|also|and|now|kindly|just|simply|always|must|should|have\s+to|need\s+to|instead)\s+)",
    ),
    // What an assistant gives back.
    ("{answer}", r"(?:reply|replies|response|responses|answer|answers|outputs?|summary|reasoning)"),
    // Who may be asked: a person is asked so only by somebody who means an assistant.
    (
        "{can_you}",
        r"(?:(?:can|could|would|will)\s+you\s+(?:please\s+|kindly\s+|just\s+)?|i\s+(?:need|want|order|command|would\s+like)\s+you\s+to\s+|you\s+(?:must|have\s+to|need\s+to)\s+)",
    ),
    (
        "{assistant}",
        r"(?:AI|A\.I\.|LLM|GPT|ChatGPT|Claude|Gemini|Copilot|(?:large\s+)?language\s+model|assistant|chatbot|AI\s+(?:assistant|agent|model|system|bot))",
    ),
    // Who reads, by a name that only software has.
    (
        "{reader}",
        r"(?:(?:AI|LLM)s?(?:[\s-]+(?:\w+\s+){0,2}?(?:assistant|agent|model|system|bot|robot|reviewer|evaluator|grader|judge|analyst|recruiter|screener|crawler|reader|tool|note|summari[sz]er|copilot)s?)?|(?:large\s+)?language\s+models?|chat\s?bots?|artificial\s+intelligence|ChatGPT|GPT-\d\w*|Claude|Gemini|(?:github-)?Copilot|Cursor|(?:coding|automated|autonomous|virtual|triage|recruiting|hiring|support|booking|shopping|browser)\s+(?:assistant|agent|reviewer|evaluator|grader|bot|copilot)s?|assistants?)",
    ),
    // What a judge's protocol may answer.
    ("{verdict}", r"(?:APPROVED?|FLAG|FLAGGED|REJECT|REJECTED|INCONCLUSIVE)"),
    // Who judges, in other languages.
    (
        "{juror}",
        r"(?i:prüfer|gutachter|bewerter|rezensent|relecteur|[eé]valuateur|examinateur|correcteur|r[eé]viseur|v[eé]rificateur|revisor|evaluador|moderador|valutatore|esaminatore|avaliador|beoordelaar|nakijker|controleur|recenze\p{L}*|recenzj\p{L}*|sprawdzając\p{L}*|oceniając\p{L}*|weryfikator|рецензент|проверяющ|ревьюер|оценщик|перевіряюч|оцінювач|denetçi|değerlendiric|inceleyici|hakem)\p{L}*|审查[者员人]?|評審|评审|审核[者员]?|评估者|审阅者?|審查|レビュー担当|レビュアー|レビューア|査読者?|審査員?|評価者|검토자|리뷰어|평가자|심사자|심사위원|مراجع|المقيم|المقيّم|المدقق|समीक्षक|मूल्यांकनकर्ता|जांचकर्ता",
    ),
    // What a judge is told to rule there: to let pass, to find nothing, to turn down.
    (
        "{ruling}",
        r"(?i:genehmig(?:e|en|t)\b|freigeben|gib\s[^.\n]{0,20}frei|(?:keine|ohne)\s+(?:\p{L}+\s+)?(?:befunde|beanstandung\p{L}*|fehler|probleme)|lehne\s|ablehnen|approuve[rz]?\b|accepte[rz]?\b|rien\s+signaler|ne\s+(?:rien\s+)?signale[rz]?|(?:aucun|sans)\p{L}*\s+(?:aucun\p{L}*\s+)?(?:problème|remarque|défaut)|rejette[rz]?\b|apr(?:ueb|ob)[ae]r?\b|ning[uú]n\s+(?:problema|hallazgo)|sin\s+(?:hallazgos|observaciones|problemas)|rechaz[ae]r?\b|approva(?:re)?\b|senza\s+(?:rilievi|osservazioni)|nessun\s+problema|respinge\p{L}*|aprov[ae]r?\b|nenhum\s+problema|rejeit[ae]r?\b|goedkeuren|keur\s[^.\n]{0,20}goed|geen\s+(?:problemen|bevindingen)|afkeuren|zatwierd\p{L}*|zaakceptuj\p{L}*|odrzu[cć]\p{L}*|одобр\p{L}*|отклон\p{L}*|схвал\p{L}*|відхил\p{L}*|onayla\p{L}*|reddet\p{L}*)|批准|通过|通過|不要报告|不得报告|没有问题|拒绝|承認し|報告し?ないで|却下し|승인하|보고하지\s*마|거부하|الموافقة|وافق|ارفض|عدم\s+الإبلاغ|स्वीकृत|अनुमोदित|अस्वीकार|मंज़ूर",
    ),
    // Who judges, a person or not.
    (
        "{judge}",
        r"(?:(?:AI|automated|shadow|code|security|LLM|model)[\s-]+)*(?:reviewer|evaluator|grader|auditor|moderator|judge|assessor)s?",
    ),
    // Software by the name of its work; `bot`, `tool` and the like need the work before them.
    (
        "{role}",
        r"(?:(?:the|any|all|our|your|dear|hey)\s+)?(?:(?:(?:AI|LLM|automated|automatic)[\s-]+)?(?:support|screening|grading|scoring|ranking|triage|review|reviewing|moderation|translation|summari[sz]ation|coding|code|shopping|booking|hiring|recruiting|customer[\s-]service|sales|quality|help|chat|ticket|e-?mail|search)[\s-]+(?:bot|model|agent|assistant|tool|checker|system|engine|AI|LLM)s?|summari[sz]ers?|(?:automated\s+)?(?:quality\s+)?checker|(?:AI|LLM|automated)\s+(?:classifier|grader|ranker|screener|summari[sz]er)s?|coding\s+agents?|Copilot|Claude|Gemini|ChatGPT|Cursor|Codex|Devin)",
    ),
    // An act about this text, whoever wrote it, or its mark.
    (
        "{about_this}",
        r"(?:(?:approve|accept|pass|skip|ignore|merge|shortlist|hire|recommend|select|promote|whitelist|trust)\s+(?:this|it|me|him|her|us)\b|(?:rank|rate|score|grade|mark|put|place|list)\s+(?:this|it|me|him|her|us)\s[^.\n]{0,40}?\b(?:first|top|highest|best|as\s+\w+|\d+)|(?:rank|rate|score|place)\s[^.\n]{0,40}?\bregardless\b|(?:give|award|assign)\s[^.\n]{0,40}?\b(?:full\s+(?:marks|score|points)|(?:top|highest|maximum|perfect)\s+(?:marks?|score|rating|grade)|\d+\s*/\s*\d+)|(?:grant|give)\s+(?:me|us|him|her)\s[^.\n]{0,40}?\b(?:admin|rights|access|permissions?|refund|discount|credit)|(?:say|answer|reply|write|report|respond)\s+(?:with\s+)?(?:LGTM|that\s+(?:this|it|the)\b|only\b|nothing\b)|(?:close|mark)\s+this\s[^.\n]{0,30}?\b(?:resolved|done|solved|approved|safe)|(?:list|report|find|raise)\s+no\s+\w+|approve\s+(?:the|every|all)\s[^.\n]{0,30}?\b(?:LGTM|without))",
    ),
    // What nobody asks of an assistant in another language for an honest end.
    (
        "{abroad}",
        r"(?:https?://|[\w.+-]+@[\w-]+\.\w|(?i:nicht\s+(?:erwähn|sag|mitteil|verrat)|erwähne\s+(?:es\s+)?nicht|sans\s+(?:en\s+|le\s+)?(?:parler|informer|prévenir|dire)|ne\s+(?:le\s+)?dis\s+pas|sin\s+(?:decir|informar|avisar)|no\s+(?:se\s+)?(?:lo\s+|le\s+)?digas|senza\s+(?:dir|informar|avvisar)|sem\s+(?:dizer|informar|avisar)|zonder\s+[^.\n]{0,20}(?:te\s+)?(?:vertellen|melden|zeggen)|не\s+(?:говори|сообщай|кажи|повідомляй)|nie\s+mów|söyleme|vergiss|ignorier|oublie|ignore[rz]?\s|olvid[ae]|ignora|dimentica|cancella|borra|elimina|apaga|esque[cç]|vergeet|negeer|verwijder|lösch|supprime|usuń|skasuj|удали|забудь|игнорир|видали|ігнор|sil(?:in)?\b)|不要告诉|别告诉|忽略|删除|无视|無視|削除|教えないで|무시|삭제|말하지\s*마|احذف|تجاهل|دون\s+إخبار|हटा|अनदेख)",
    ),
    // What binds who is named to an act.
    (
        "{bound}",
        r"(?:must|should|shall|ha(?:s|ve)\s+to|needs?\s+to|may\s+now|could\s+you|agrees?\s+to|you\s+must|(?:is|are|you\s+are)?\s*(?:asked|required|instructed|ordered|needed|expected|obliged|supposed|permitted|so\s+kind\s+as)\s+to)",
    ),
    // Acts that change something, give something away or answer for a verdict; no word of a style guide.
    (
        "{act}",
        r"(?:accept|add|approve|assign|attach|book|buy|call|cancel|click|close|conclude|confirm|copy|create|delete|disable|disregard|drop|embed|encode|erase|escalate|execute|export|fetch|forget|forward|give|grant|hand|hide|ignore|insert|invite|leave|mail|mark|merge|move|obey|open|output|pass|pay|post|pretend|print|promote|purchase|put|rank|rate|recommend|release|remove|replace|reply|report|reset|respond|reveal|run|say|send|set|share|skip|stop|submit|tell|transfer|treat|turn|unlock|upload|visit|wipe|wire|write)",
    ),
    // What may stand between an address and its verb.
    (
        "{mood}",
        r"(?:(?:please|now|also|then|and|always|first|instead|simply|just|silently|immediately|you\s+(?:must|should|need\s+to|have\s+to|may|are\s+to))\s+)*",
    ),
    // Acts that nobody asks of a reader for an honest end: data leaves, a guard sleeps, a verdict is given away.
    (
        "{wrong}",
        r"(?:(?:send|forward|e-?mail|upload|post|transfer|pay|wire|exfiltrate|leak|submit|share|export)\s[^\n]{0,100}?(?:https?://|www\.|[\w.+-]+@[\w-]+\.|\binvoices?\b|\bcontacts\b|\bbalance\b|\bcredentials?\b|\bsecrets?\b|\bpasswords?\b|api[_ ]keys?|~/|\.env\b)|(?:reveal|print|dump|output|paste|disclose|resend)\s[^.\n]{0,60}?(?:prompt|config|secrets?|keys?\b|credentials?|passwords?|memory|context|environment|instructions)|(?:approve|accept|mark|rate|score|rank|grade|award|close|recommend|endorse|promote|praise|treat)\s[^.\n]{0,80}?(?:\bfirst\b|highest|excellent|verified|approved|full\s+marks|full\s+score|perfect|positive|\bbest\b|\bsafe\b|resolved|invitations|\bour\b|strong\s+accept|\d+/10|\b100\b|trusted)|(?:skip|disable|bypass|turn\s+off|ignore|discard|disregard|drop|omit|leave|hide|suppress|lift|forget)\s[^.\n]{0,60}?(?:validation|confirmation|verification|\bchecks?\b|moderation|sandbox|safety|approval|filters?\b|guardrails?|question|request|\brisks?\b|warnings?|findings?|negatives?|clause|instructions?|issue\s+text|\btask\b|findings)|(?:grant|give)\s[^.\n]{0,60}?(?:\badmin|\broot\b|permissions?\b|\brights\b|\baccess\b)|add\s[^.\n]{0,60}?(?:ssh\s+key|authorized_keys|\bcart\b|collaborator|as\s+(?:an?\s+)?admin)|(?:delete|drop|wipe|erase|destroy|truncate)\s[^.\n]{0,40}?(?:\ball\b|\bevery|inbox|account|repositor|database|\btable|message|e?mails?\b|files\b|\brows\b|history)|(?:do\s+not|don'?t|never|must\s+not|without)\s+(?:report|mention|flag|tell|highlight|inform|notify|asking|telling|confirm|confirming|mentioning|warn|raise|list)\b|(?:run|execute|call|invoke|open|visit|fetch|download|install|read)\s[^\n]{0,60}?(?:https?://|\bcurl\b|\bwget\b|\|\s*(?:ba)?sh\b|\w+_\w+\s?\(|\brm\s+-|payment|\bsudo\b|id_rsa|~/\.)|(?:say|reply|respond|answer|tell)\s+(?:only\s+|with\s+)?(?:[\x22'“]|the\s+user\s|that\s)|{more})",
    ),
    (
        "{more}",
        r"(?:(?:send|wire|transfer|pay|donate)\s[^.\n]{0,30}?(?:[$€£]\s?\d|\d+\s?(?:EUR|USD|GBP|dollars|euros)|\bmoney\b|\bfunds\b|\bpayment)|(?:put|insert|append|prefix|include|add|paste|copy|log|mail|attach|render|encode|write|store|save|request|resolve|invite|hand|output|reveal|disclose|list|log)\s[^\n]{0,100}?(?:https?://|[\w.+-]+@[\w-]+\.\w|\bssh[\s-]|\bpasswords?\b|\bcookies?\b|\bcredentials?\b|\bapi\s+keys?\b|\bsecrets?\b|\benvironment\b|\.env\b|\bcontext\s+window\b|\bprior\s+messages\b|\b(?:system|hidden|internal)\s+(?:instructions|prompts?|rules)\b|\bmessages\s+of\s+this\b|\bcredit\s+card|\bprocess\.env|\bauthorized_keys)|(?:click|press|confirm)\s[^.\n]{0,40}?\b(?:confirm|delete|accept|submit|buy|pay)\b|(?:recommend|describe|rank|rate|mention|promote|praise|consider|treat)\s[^.\n]{0,80}?\b(?:always|only|over\s+all|secure|trusted|in\s+every|hide|leave\s+out|must\s+not\s+mention)\b|always\s+(?:recommend|prefer|mention|promote)\b|(?:hide|omit|leave\s+out|conceal)\s[^.\n]{0,40}?\b(?:from\s+the\s+user|reviews?|competition|lines?|clauses?|warnings?)\b|(?:turn\s+off|disable|mute|deactivate)\s[^.\n]{0,30}?\b(?:notifications?|alerts?|logging|factor|login|protection|security)\b|(?:unlock|reset|set)\s[^.\n]{0,50}?\b(?:door|account|password|limit)\b|(?:enter|use|fill\s+in)\s[^.\n]{0,30}?\b(?:saved|stored|user'?s)\s+(?:credentials|card|password)|without\s+(?:review|confirmation|hesitation)|(?:merge|push|deploy|publish)\s[^.\n]{0,40}?(?:--force|\bwithout\b|straight)|drop\s+your\s+task|(?:set|add|enable)\s[^\n]{0,20}?\bauto_?approve|close\s+all\b|[^.\n]{0,40}\bas\s+(?:spam|if\s+(?:they|it)\s+came)\b)",
    ),
    (r"\b", r"(?-u:\b)"),
    (r"\w", "[0-9A-Za-z_]"),
    (r"\s", r"[ \t\r\n]"),
];

/// Every form.
pub(super) fn all() -> impl Iterator<Item = &'static Form> {
    [
        precedence::FORMS,
        tongues::FORMS,
        judges::FORMS,
        tasks::FORMS,
        forgeries::FORMS,
        addresses::FORMS,
        combined::FORMS,
        reviewers::FORMS,
        roles::FORMS,
        requests::FORMS,
        steering::FORMS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::all;

    #[test]
    fn every_form_compiles_and_has_words_to_look_for() {
        for form in all() {
            assert!(form.compile().is_some(), "{}: {}", form.rule, form.pattern);
            assert!(form.words.iter().all(|word| word.len() >= 3) && !form.words.is_empty(), "{:?}", form.words);
        }
    }
}
