//! Tool calls that models asked for, put to the spans that tell of them, and the results that models were given.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::{
    assemble::{AssembledCall, CallKind},
    join::{arguments, ids_differ, is_same_form, is_unique, plain_name},
    record::Part,
};

/// Most calls of one tool that are compared with a request.
const COMPARED: usize = 64;

/// Most names of a model's call that the calls which it asked for are known by.
const ALIASES: usize = 16;

/// Tool call in the output of a model.
pub(crate) struct Request {
    /// Position of the model's call.
    pub model: usize,
    /// Number in the output, from 0.
    pub number: usize,
    /// Tool and arguments.
    pub part: Part,
}

/// Result of a tool call that a model was given, or that came with its output.
pub(crate) struct GivenResult {
    /// Time in nanoseconds; the tool call started before.
    pub at: i64,
    /// Number of results with the same id after it in the same messages.
    pub later: usize,
    /// Result.
    pub part: Part,
}

fn tool_name(part: &Part) -> Option<&str> {
    part.stored.event.tool.as_ref().map(|tool| plain_name(&tool.name)).filter(|name| !name.is_empty())
}

fn name_of(call: &AssembledCall) -> Option<&str> {
    call.call.as_ref().and_then(tool_name)
}

/// Puts each request to the call of a tool that fulfils it, or makes it a call of its own. Both lists are in the order
/// of their time.
pub(crate) fn match_requests(models: &[AssembledCall], requests: Vec<Request>, tools: &mut Vec<AssembledCall>) {
    let mut free = FreeCalls::of(tools);
    // An id decides before a name: the call of another request must not be taken.
    let requests: Vec<(Request, Option<usize>)> = requests
        .into_iter()
        .map(|request| {
            let start = models.get(request.model).map_or(0, |model| model.start);
            let fulfilled = free.take_by_id(tools, start, &request.part);
            (request, fulfilled)
        })
        .collect();
    let mut told: HashMap<String, usize> = HashMap::new();
    for (Request { model, number, part }, by_id) in requests {
        let Some(model) = models.get(model) else { continue };
        // The same request may be told by a second instrumentation that could not be joined.
        let known = part.id.as_ref().filter(|id| is_unique(id)).and_then(|id| told.get(id).copied());
        let known = known.filter(|at| tools.get(*at).and_then(name_of) == tool_name(&part));
        let fulfilled = known.or(by_id).or_else(|| free.take_by_name(tools, model.start, &part));
        let at = fulfilled.unwrap_or_else(|| {
            tools.push(call_of_request(model, part.clone()));
            tools.len() - 1
        });
        if let Some(id) = &part.id {
            told.insert(id.clone(), at);
        }
        if let Some(call) = tools.get_mut(at) {
            call.aliases.extend(model.aliases.iter().take(ALIASES).map(|alias| format!("{alias}/use/{number}")));
            if known.is_none() {
                note_request(call, model, part);
            }
        }
    }
    tools.sort_by(|a, b| (a.start, &a.span).cmp(&(b.start, &b.span)));
}

/// Positions of tool calls, and of those among them that a request is put to.
#[derive(Default)]
struct FreeCalls {
    by_id: HashMap<String, VecDeque<usize>>,
    by_name: HashMap<String, VecDeque<usize>>,
    taken: HashSet<usize>,
}

impl FreeCalls {
    fn of(tools: &[AssembledCall]) -> Self {
        let mut free = Self::default();
        for (at, call) in tools.iter().enumerate() {
            if let Some(id) = &call.tool_id {
                free.by_id.entry(id.clone()).or_default().push_back(at);
            }
            if let Some(name) = name_of(call) {
                free.by_name.entry(name.to_owned()).or_default().push_back(at);
            }
        }
        free
    }

    fn take(&mut self, at: usize) -> usize {
        self.taken.insert(at);
        at
    }

    fn take_by_id(&mut self, tools: &[AssembledCall], after: i64, part: &Part) -> Option<usize> {
        let id = part.id.as_deref()?;
        let calls = self.by_id.get_mut(id)?;
        // An id that comes back may be that of an earlier turn.
        let is_past = |at: &usize| !is_unique(id) && tools.get(*at).is_some_and(|call| call.start < after);
        while calls.front().is_some_and(is_past) {
            calls.pop_front();
        }
        let name = calls.front().and_then(|at| name_of(tools.get(*at)?));
        if name.zip(tool_name(part)).is_some_and(|(a, b)| a != b) {
            return None;
        }
        let at = calls.pop_front()?;
        Some(self.take(at))
    }

    /// Takes the call of the tool that started after a time: one with the same arguments, else the next one whose
    /// arguments may be those of the request. Times do not fall from one request to the next.
    fn take_by_name(&mut self, tools: &[AssembledCall], after: i64, part: &Part) -> Option<usize> {
        let calls = self.by_name.get_mut(tool_name(part)?)?;
        let is_past = |at: &usize| self.taken.contains(at) || tools.get(*at).is_none_or(|call| call.start < after);
        while calls.front().is_some_and(is_past) {
            calls.pop_front();
        }
        let mut fallback = None;
        for at in calls.iter().take(COMPARED).filter(|at| !self.taken.contains(at)) {
            let Some(call) = tools.get(*at) else { continue };
            let known = call.call.as_ref().map(arguments);
            if ids_differ(call.tool_id.as_deref(), part.id.as_deref()) {
                continue;
            }
            if known == Some(arguments(part)) {
                fallback = Some(*at);
                break;
            }
            if fallback.is_none() && known.is_none_or(|known| is_same_form(known, arguments(part))) {
                fallback = Some(*at);
            }
        }
        fallback.map(|at| self.take(at))
    }
}

/// Adds to a tool's call what the model said when it asked for it.
fn note_request(call: &mut AssembledCall, model: &AssembledCall, part: Part) {
    call.requested_by = Some(model.span.clone());
    call.tool_id = part.id.clone().or_else(|| call.tool_id.take());
    call.prompt = model.prompt.clone().or_else(|| call.prompt.take());
    call.agent = call.agent.take().or_else(|| model.agent.clone());
    // A span may hold the bare argument, or none.
    let is_fuller =
        arguments(&part).is_object() && call.call.as_ref().is_none_or(|known| !arguments(known).is_object());
    if is_fuller || call.call.as_ref().is_none_or(|known| arguments(known).is_null()) {
        call.call = Some(part);
    }
}

/// Returns the call of a tool that only the model's call tells of.
fn call_of_request(model: &AssembledCall, part: Part) -> AssembledCall {
    AssembledCall {
        kind: CallKind::Tool,
        agent: model.agent.clone(),
        service: model.service.clone(),
        conversation: model.conversation.clone(),
        scope: model.scope.clone(),
        span: model.span.clone(),
        parent: Some(model.span.clone()),
        tool_id: part.id.clone(),
        start: model.end,
        end: model.end,
        prompt: model.prompt.clone(),
        call: Some(part),
        requested_by: Some(model.span.clone()),
        is_cut: model.is_cut,
        ..AssembledCall::default()
    }
}

/// Gives results to the calls that they are of, in the order of their time. Returns those of no call.
pub(crate) fn assign_results(tools: &mut [AssembledCall], results: Vec<GivenResult>) -> Vec<Part> {
    let mut open = OpenCalls::of(tools);
    let mut foreign = Vec::new();
    for GivenResult { at: time, later, part } in results {
        match open.find(tools, (time, later), &part).and_then(|at| tools.get_mut(at)) {
            Some(call) => {
                call.tool_id = call.tool_id.take().or_else(|| part.id.clone());
                fill_result(&mut call.result, &part);
            }
            None if part.id.as_deref().is_some_and(is_unique) => foreign.push(part),
            None => {}
        }
    }
    foreign
}

/// Calls by what a result may name: the id, the tool, or the place in the order of calls.
#[derive(Default)]
struct OpenCalls {
    by_id: HashMap<String, Vec<(i64, usize)>>,
    by_name: HashMap<String, VecDeque<usize>>,
    without_id: VecDeque<usize>,
    without_result: VecDeque<usize>,
}

impl OpenCalls {
    fn of(tools: &[AssembledCall]) -> Self {
        let mut open = Self::default();
        for (at, call) in tools.iter().enumerate() {
            if let Some(id) = &call.tool_id {
                open.by_id.entry(id.clone()).or_default().push((call.start, at));
            }
            if call.result.is_some() {
                continue;
            }
            open.without_result.push_back(at);
            if call.tool_id.is_none() {
                open.without_id.push_back(at);
            }
            if let Some(name) = name_of(call) {
                open.by_name.entry(name.to_owned()).or_default().push_back(at);
            }
        }
        open
    }

    /// Returns the call of a result that was given at a time, before later ones with the same id.
    fn find(&mut self, tools: &[AssembledCall], (time, later): (i64, usize), part: &Part) -> Option<usize> {
        let name = tool_name(part);
        if let Some(calls) = part.id.as_ref().and_then(|id| self.by_id.get(id)) {
            // An id may come back in a later turn.
            let earlier = calls.partition_point(|(start, _)| *start <= time);
            let last = earlier.checked_sub(1 + later).or_else(|| is_unique(part.id.as_deref()?).then_some(0));
            if let Some((_, at)) = last.and_then(|last| calls.get(last)) {
                return Some(*at);
            }
        }
        // Some providers number no calls, some senders give ids with the results alone: results come in the order of
        // the calls.
        let queue = match (&part.id, name) {
            (Some(_), _) => &mut self.without_id,
            (None, Some(name)) => self.by_name.get_mut(name)?,
            (None, None) => &mut self.without_result,
        };
        while queue.front().is_some_and(|at| tools.get(*at).is_none_or(|call| call.result.is_some())) {
            queue.pop_front();
        }
        let next = tools.get(*queue.front()?).filter(|call| call.start <= time)?;
        let is_of_tool = name.zip(name_of(next)).is_none_or(|(a, b)| a == b);
        is_of_tool.then(|| queue.pop_front()).flatten()
    }
}

/// Fills in what a result lacks.
pub(crate) fn fill_result(known: &mut Option<Part>, other: &Part) {
    let Some(known) = known else {
        *known = Some(other.clone());
        return;
    };
    let (Some(tool), Some(told)) = (&mut known.stored.event.tool, &other.stored.event.tool) else { return };
    let marks = &mut known.stored.marks;
    let mut take_marks = |field: &str| {
        marks.retain(|mark| mark.field.as_str() != field);
        marks.extend(other.stored.marks.iter().filter(|mark| mark.field.as_str() == field).cloned());
    };
    // The text that a model is given of a failure says no more than the error does; that of a result may.
    let says_more = |text: &str| match (&tool.result, &tool.error) {
        (Some(result), _) => text != result && text.contains(result.as_str()),
        (None, Some(error)) => !text.contains(error.as_str()),
        (None, None) => true,
    };
    if told.result.as_deref().is_some_and(says_more) {
        tool.result.clone_from(&told.result);
        take_marks("tool.result");
    }
    if let Some(error) = told.error.as_deref().filter(|_| tool.error.is_none()) {
        // One teller has the error as the result.
        if tool.result.as_deref().is_some_and(|result| error.contains(result)) {
            tool.result = None;
            take_marks("tool.result");
        }
        tool.error.clone_from(&told.error);
        take_marks("tool.error");
    }
    tool.exit_code = tool.exit_code.or(told.exit_code);
}
