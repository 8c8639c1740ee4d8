//! Writes the prompt for one event; `group` uses the parts that several events share. In: a shadow, its subject, a
//! nonce. Out: system and user text, the reply's schema, the omissions; and, in advance, the most bytes that all of it
//! can have. Never: agents' text outside the fence or as a template.

use std::{cmp::Reverse, fmt, sync::LazyLock};

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value, context};

use super::{
    Baseline, EventInput, FENCE_MARK, canary,
    canary::Canary,
    datamark::{LINE_BYTES, Marks, SPACE_BYTES},
    excerpt::{MAX_WINDOWS, NOTICE_BYTES, excerpt, grouped, share},
    reminders::{MEMORY_BYTES, MEMORY_LINES},
    reply,
    sections::{EventSection, MAX_SECTIONS, public_place, sections, text_bytes},
};
use umbra_domain::{Datamark, Event, Hit, ReviewScope, Shadow};

/// Version of all our words to a model: templates, schemas, the words of a repair. Each result stores it, so
/// that a judgement can be traced to its words. `templates/versions.txt` holds the hash of each version.
pub const PROMPT_VERSION: i16 = 2;

pub(super) const SYSTEM: &str = include_str!("templates/system.j2");
pub(super) const USER: &str = include_str!("templates/user.j2");
pub(super) const BATCH: &str = include_str!("templates/batch.j2");
pub(super) const TRAJECTORY: &str = include_str!("templates/trajectory.j2");
/// Text behind the message when a model is asked again after an unreadable reply: before and after the reason.
pub(super) const REPAIR: [&str; 2] = [
    "\n\nYour last reply could not be used: ",
    ". Reply again with one JSON object of the given schema and no other text.",
];

/// Most hits that the model is told of, worst first.
const MAX_FACTS: usize = 24;
/// Most hits of each event, where there are several.
pub(super) const GROUP_FACTS: usize = 8;
/// Most hits of one section that an excerpt is built around, worst first.
const MAX_MARKS: usize = 100;
/// Most characters of a rule's name.
const RULE_CHARS: usize = 64;
/// Longest line of a fact, in bytes.
const FACT_BYTES: usize = 192;
/// Most bytes of a section's opening and closing line and its line under "left out", together.
const SECTION_BYTES: usize = 256;
/// Most bytes of the other values in a template: tag, trigger, baseline, nonce, and a message of repair.
const FILLED_BYTES: usize = 720;
/// Bytes of the longest character in UTF-8.
const UTF8_BYTES: usize = 4;

#[expect(clippy::expect_used, reason = "the templates are constants, and every test renders them")]
static TEMPLATES: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut templates = Environment::empty();
    templates.set_auto_escape_callback(|_| AutoEscape::None);
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_fuel(Some(1_000_000));
    templates.add_template("system", SYSTEM).expect("system.j2 is a template");
    templates.add_template("user", USER).expect("user.j2 is a template");
    templates.add_template("batch", BATCH).expect("batch.j2 is a template");
    templates.add_template("trajectory", TRAJECTORY).expect("trajectory.j2 is a template");
    templates
});

/// Reason why no prompt can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PromptError {
    /// The nonce does not have the required form.
    #[error("the nonce must be 32 hex digits in lower case (128 random bits)")]
    BadNonce,
    /// The reviewed text holds the nonce or its tag, so it could close a block.
    #[error("the nonce occurs in the reviewed text: draw another")]
    NonceInText,
    /// There is nothing to show.
    #[error("the task has no step that can be shown")]
    Empty,
    /// A template failed.
    #[error("the prompt's template failed ({0:?}): most likely the shadow has far too many criteria")]
    Template(minijinja::ErrorKind),
}

/// A text that the model was shown only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OmittedText {
    /// Step of a task that it belongs to.
    pub step: Option<usize>,
    /// Name of the section, such as `output` or `tool.args`.
    pub field: &'static str,
    /// Number of characters left out.
    pub chars: usize,
}

impl fmt::Display for OmittedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(step) = self.step {
            write!(f, "step {}, ", grouped(step))?;
        }
        write!(f, "{}: {} characters", self.field, grouped(self.chars))
    }
}

/// One item as shown to a model. `Debug` shows no text.
#[derive(Clone, PartialEq, Eq)]
pub struct ShownItem {
    /// Nonce that the reply must echo.
    pub nonce: String,
    /// Canary that the reply must report. It is never shown to people.
    pub(super) canary: Option<Canary>,
    /// Marks on the data.
    pub(super) marks: Marks,
    /// Texts that were cut for `max_input_chars`.
    pub omitted: Vec<OmittedText>,
    /// Number of steps of a task that were left out whole.
    pub unseen_steps: usize,
}

impl ShownItem {
    /// Draws canary and marks for this nonce; nothing is left out yet.
    pub(super) fn new(shadow: &Shadow, nonce: &str) -> Self {
        let canary = shadow.canary.then(|| Canary::of(nonce));
        let marks = Marks::of(shadow.datamark, nonce);
        Self { nonce: nonce.to_owned(), canary, marks, omitted: Vec::new(), unseen_steps: 0 }
    }

    /// Returns the values for the templates.
    pub(super) fn fence(&self, tag: &str) -> Value {
        context! {
            tag,
            nonce => self.nonce.clone(),
            mark => self.marks.line(),
            space => self.marks.space().map(String::from),
            canary => self.canary.as_ref().map(|canary| self.marks.put(&canary.text())),
        }
    }
}

impl fmt::Debug for ShownItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shown").field("omitted", &self.omitted).finish_non_exhaustive()
    }
}

/// Prompt for a model. `Debug` shows no text.
#[derive(Clone)]
pub struct Prompt {
    /// System text: the rules, the same for every review of one shadow version, so that providers can cache them.
    pub system: String,
    /// User text: the event, and the facts established about it.
    pub user: String,
    /// JSON Schema of the reply.
    pub schema: serde_json::Value,
    /// Items that are judged by themselves, as shown; at least one.
    pub shown: Vec<ShownItem>,
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("bytes", &self.bytes()).field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl Prompt {
    /// Returns the bytes of system, user and schema together: never more than [`worst_prompt_bytes`].
    pub fn bytes(&self) -> usize {
        self.system.len() + self.user.len() + self.schema.to_string().len()
    }
}

/// Writes the prompt for one review. `nonce` is 32 hex digits in lower case, drawn at random for this call alone.
pub fn prompt(shadow: &Shadow, subject: &EventInput, nonce: &str) -> Result<Prompt, PromptError> {
    let (mut items, shown) = items(shadow, &[*subject], MAX_FACTS, &mut || nonce.to_owned())?;
    let user = render("user", items.pop().unwrap_or_default())?;
    let schema = reply::schema(ReviewScope::Event).clone();
    Ok(Prompt { system: system(shadow, ReviewScope::Event)?, user, schema, shown })
}

/// Writes events that are judged by themselves, each with a fence of its own and at most so many facts. Returns the
/// values for the template, and the items as shown.
pub(super) fn items(
    shadow: &Shadow,
    subjects: &[EventInput],
    most_facts: usize,
    nonce: &mut impl FnMut() -> String,
) -> Result<(Vec<Value>, Vec<ShownItem>), PromptError> {
    let all: Vec<Vec<EventSection>> = subjects.iter().map(|subject| sections(subject.event)).collect();
    let fences = subjects.iter().map(|subject| {
        let nonce = nonce();
        let tag = tag(&nonce, subject)?;
        all.iter().try_for_each(|sections| refuse_known(sections, &nonce, &tag))?;
        if subject.memory.iter().any(|text| text.contains(&nonce) || text.contains(&tag)) {
            return Err(PromptError::NonceInText);
        }
        Ok((ShownItem::new(shadow, &nonce), tag))
    });
    let fences = fences.collect::<Result<Vec<_>, PromptError>>()?;
    let parts = all.iter().zip(subjects).zip(&fences).flat_map(|((sections, subject), (shown, _))| {
        sections.iter().map(|section| PromptSection { step: None, section, hits: subject.hits, marks: &shown.marks })
    });
    let parts: Vec<PromptSection> = parts.collect();
    let mut fitted = fit(&parts, shadow.max_input_chars as usize).into_iter();
    let (mut items, mut shown) = (Vec::new(), Vec::new());
    for ((subject, sections), (mut own, tag)) in subjects.iter().zip(&all).zip(fences) {
        let (texts, omitted): (Vec<Value>, Vec<_>) = fitted.by_ref().take(sections.len()).unzip();
        let omitted: Vec<_> = omitted.into_iter().flatten().collect();
        items.push(context! {
            fence => own.fence(&tag),
            trigger => subject.trigger.as_str(),
            facts => facts(subject.hits, most_facts),
            omitted => omitted.iter().map(OmittedText::to_string).collect::<Vec<_>>(),
            baseline => subject.baseline.map(baseline),
            memory => subject.memory.iter().map(|line| own.marks.put(line)).collect::<Vec<_>>(),
            sections => texts,
        });
        own.omitted = omitted;
        shown.push(own);
    }
    Ok((items, shown))
}

/// Writes the rules for reviews of this scope.
pub(super) fn system(shadow: &Shadow, scope: ReviewScope) -> Result<String, PromptError> {
    let (criteria, scope, datamark) = (shadow.criteria.clone(), scope.as_str(), shadow.datamark.as_str());
    render("system", context! { criteria, scope, datamark, canary => shadow.canary })
}

/// Refuses texts that hold the nonce or the tag: they could close their block.
pub(super) fn refuse_known(sections: &[EventSection], nonce: &str, tag: &str) -> Result<(), PromptError> {
    let known = |section: &EventSection| section.text.contains(nonce) || section.text.contains(tag);
    if sections.iter().any(known) { Err(PromptError::NonceInText) } else { Ok(()) }
}

/// Returns the prompt for another call after a reply that does not suffice; `message` is that of a `FollowUp`. Send it
/// once at most. The reply itself is not sent back: the reviewed text may have dictated it.
pub fn repair_prompt(prompt: &Prompt, message: &str) -> Prompt {
    let mut again = prompt.clone();
    again.user.extend([REPAIR[0], message, REPAIR[1]]);
    again
}

/// Returns the most bytes that the prompt for this event can have, and its repair. They bound its tokens as well, since
/// no tokenizer in use makes a token of less than a byte. Reads the event's lengths alone.
///
/// For several events, it bounds the prompt that holds them all, as a batch or as a task.
pub fn worst_prompt_bytes(shadow: &Shadow, events: &[&Event]) -> usize {
    // A template is longer than the fixed text it renders to. Each criterion adds its bullet and line break.
    let (user, facts, filled) = match events.len() {
        0 | 1 => (USER.len(), MAX_FACTS, FILLED_BYTES),
        // A batch fills these in once for each event.
        many => (BATCH.len().max(TRAJECTORY.len()), MAX_FACTS.max(many * GROUP_FACTS), many * FILLED_BYTES),
    };
    let fixed = SYSTEM.len() + *reply::SCHEMA_BYTES + REPAIR[0].len() + REPAIR[1].len();
    let rules: usize = shadow.criteria.iter().map(|criterion| criterion.len() + 3).sum();
    let sections = MAX_SECTIONS * events.len().max(1);
    let marks = facts * FACT_BYTES + (sections + 1 + events.len().max(1)) * SECTION_BYTES;
    let bytes: usize = events.iter().map(|event| text_bytes(event)).sum();
    let limit = shadow.max_input_chars as usize;
    // A text of so many bytes has no more characters than that: nothing is left out, and no notice written.
    let notices = if bytes <= limit { 0 } else { sections * (MAX_WINDOWS + 1) * NOTICE_BYTES };
    let shown = bytes.min(limit.saturating_mul(UTF8_BYTES)) + notices;
    let beside = MEMORY_BYTES + events.len().max(1) * canary::BYTES;
    fixed + user + filled + rules + marks + shown + beside + datamarks(shadow, events, sections, shown + beside)
}

/// Returns the most bytes that marks add to so many bytes of data.
fn datamarks(shadow: &Shadow, events: &[&Event], sections: usize, bytes: usize) -> usize {
    let mut breaks = 0;
    for event in events {
        let mut count = |text: &str| breaks += text.matches('\n').count();
        event.for_each_text(|_, text| count(text));
        count(event.tool.as_ref().map_or("", |tool| &tool.name));
    }
    let beside = MEMORY_LINES + events.len().max(1) * canary::LINES;
    let lines = (sections + breaks.min(shadow.max_input_chars as usize) + beside) * LINE_BYTES;
    match shadow.datamark {
        Datamark::Off => 0,
        Datamark::Lines => lines,
        Datamark::Words => lines + bytes * SPACE_BYTES,
    }
}

/// Draws the tag of an item's blocks from the nonce. The tag differs from the nonce, so a model that copies the tag for
/// the nonce is noticed.
pub(super) fn tag(nonce: &str, subject: &EventInput) -> Result<String, PromptError> {
    if nonce.len() != 32 || !nonce.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(PromptError::BadNonce);
    }
    let drawn = blake3::hash(format!("{FENCE_MARK} {nonce} {}", subject.event_id).as_bytes()).to_hex();
    Ok(format!("{FENCE_MARK}-{}", drawn.get(..32).unwrap_or_default()))
}

/// A section, with the hits of the checks in its event.
pub(super) struct PromptSection<'a> {
    /// Step of a task that it belongs to.
    pub step: Option<usize>,
    pub section: &'a EventSection<'a>,
    pub hits: &'a [Hit],
    pub marks: &'a Marks,
}

/// Cuts the sections to `budget` characters in all, and returns each with its omission.
pub(super) fn fit(parts: &[PromptSection], budget: usize) -> Vec<(Value, Option<OmittedText>)> {
    let lengths: Vec<usize> = parts.iter().map(|part| part.section.text.chars().count()).collect();
    let mut shown = Vec::with_capacity(parts.len());
    for (PromptSection { step, section, hits, marks: datamarks }, chars) in parts.iter().zip(share(&lengths, budget)) {
        let marks = || {
            let mut marks: Vec<_> = hits.iter().filter(|hit| public_place(&hit.field) == section.label).collect();
            marks.sort_by_key(|hit| Reverse(hit.severity));
            marks.truncate(MAX_MARKS);
            marks.into_iter().filter_map(|hit| Some((hit.severity, section.place(hit)?))).collect()
        };
        let cut = excerpt(&section.text, chars, marks);
        let omitted = OmittedText { step: *step, field: section.label, chars: cut.omitted };
        shown.push((
            context! { label => section.label, text => datamarks.put(&cut.text) },
            (cut.omitted > 0).then_some(omitted),
        ));
    }
    shown
}

/// Lists the hits in our words: rule and place. Descriptions stay out, since they may repeat the event's words.
pub(super) fn facts(hits: &[Hit], most: usize) -> Vec<String> {
    let mut worst: Vec<&Hit> = hits.iter().collect();
    worst.sort_by_key(|hit| Reverse(hit.severity));
    let listed = if hits.len() > most { most - 1 } else { hits.len() };
    let mut lines: Vec<String> = worst.iter().take(listed).map(|hit| fact(hit)).collect();
    if hits.len() > listed {
        lines.push(format!("{} more", grouped(hits.len() - listed)));
    }
    lines
}

fn fact(hit: &Hit) -> String {
    let word = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let rule: String = hit.rule.chars().filter(word).take(RULE_CHARS).collect();
    let (severity, check, place) = (hit.severity.as_str(), hit.check.as_str(), public_place(&hit.field));
    if hit.field.as_str() == place {
        format!("{severity} {check}.{rule} in {place}, bytes {} to {}", hit.start, hit.end)
    } else {
        format!("{severity} {check}.{rule} in {place}")
    }
}

pub(super) fn baseline(known: Baseline) -> String {
    let (mean, spread, count) = (known.mean.clamp(0.0, 100.0), known.spread.clamp(0.0, 100.0), known.count);
    format!("{count} earlier scores of this agent for this type of task have mean {mean:.0} and spread {spread:.0}.")
}

pub(super) fn render(name: &str, values: Value) -> Result<String, PromptError> {
    let rendered = TEMPLATES.get_template(name).and_then(|template| template.render(values));
    rendered.map_err(|error| PromptError::Template(error.kind()))
}
