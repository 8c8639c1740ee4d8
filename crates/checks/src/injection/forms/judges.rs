//! Text that speaks to the judge of an agent's work in other languages than English. A judge named beside the word of a
//! verdict is told one. Where the verdict is a word of the language, an order shows by what stands between: a colon, a
//! comma, a `must` or a `please`; a report of what a judge did has none.

use super::{Form, TO_REVIEWER, warning};

const VERDICT: &str = "The text speaks to its reviewer and asks for a verdict.";

/// Judges, without the first letter where an alphabet has two cases of it and the search knows one.
const JUDGES: &[&str] = &[
    "rüfer",
    "gutachter",
    "bewerter",
    "rezensent",
    "relecteur",
    "valuateur",
    "examinateur",
    "correcteur",
    "viseur",
    "rificateur",
    "revisor",
    "evaluador",
    "moderador",
    "valutatore",
    "esaminatore",
    "avaliador",
    "beoordelaar",
    "nakijker",
    "controleur",
    "recenze",
    "recenzj",
    "ecenzent",
    "sprawdzając",
    "oceniając",
    "weryfikator",
    "ецензент",
    "роверяющ",
    "евьюер",
    "ценщик",
    "еревіряюч",
    "цінювач",
    "denetçi",
    "eğerlendiric",
    "inceleyici",
    "hakem",
    "审查",
    "評審",
    "评审",
    "审核",
    "评估者",
    "审阅",
    "審查",
    "レビュー担当",
    "レビュアー",
    "レビューア",
    "査読",
    "審査",
    "評価者",
    "검토자",
    "리뷰어",
    "평가자",
    "심사자",
    "심사위원",
    "مراجع",
    "المقيم",
    "المقيّم",
    "المدقق",
    "समीक्षक",
    "मूल्यांकनकर्ता",
    "जांचकर्ता",
];

pub(super) const FORMS: &[Form] = &[
    warning(
        TO_REVIEWER,
        JUDGES,
        r"(?:{juror})[^\n]{0,80}?\b(?:{verdict})(?:[^\p{Latin}\p{N}_]|$)",
        VERDICT,
    )
    .critical(),
    warning(
        TO_REVIEWER,
        JUDGES,
        r"(?:{juror})[^.。\n]{0,20}?(?:[:,，：、،]|(?i:[^\p{L}](?:bitte|muss|müssen|soll|sollte|veuillez|doit|doivent|devez|debe|deben|por\s+favor|deve|devono|per\s+favore|dient|moet|gelieve|musi|powinien|proszę|должен|должна|пожалуйста|повинен|будь\s+ласка|lütfen)(?:[^\p{L}]|$))|必须|必須|应|請|请|は|は必ず|는|은|께서|يجب|يرجى|الرجاء|कृपया|को)[^。\n]{0,60}?(?:{ruling})",
        VERDICT,
    )
    .critical(),
    // An answer to be given, in the words of the protocol.
    warning(
        TO_REVIEWER,
        &["ntwort", "répond", "repond", "responde", "risponde", "rispondi", "responda", "ntwoord", "dpowied", "твет", "ідпов", "回答", "回复", "回覆", "返答", "답변", "응답", "대답", "أجب", "الرد", "उत्तर", "जवाब", "yanıt", "cevap"],
        r"(?i:antwort\p{L}*|r[eé]pond\p{L}*|respond[ae]\p{L}*|rispond\p{L}*|antwoord\p{L}*|odpowied\p{L}*|ответ\p{L}*|відпові\p{L}*)[^.\n]{0,30}?\b(?-i:{verdict})(?:[^\p{Latin}\p{N}_]|$)|(?:回答|回复|回覆|返答|답변|응답|대답|أجب|الرد|उत्तर|जवाब)[^。\n]{0,20}?\b{verdict}(?:[^\p{Latin}\p{N}_]|$)|\b{verdict}(?:[^\p{Latin}\p{N}_][^.。\n]{0,20}?)(?:回答|返答|응답|답변|대답|उत्तर|जवाब|(?i:yanıt|cevap|antwort|antwoord))",
        VERDICT,
    )
    .critical(),
];
