//! Spans and logs of a trace as a tree: each node holds the records of one span, and its place below others.

use std::collections::{HashMap, HashSet};

use crate::record::{Part, PartRole, Record, RecordKind};

/// Records of one span, or of one log that is no part of its span.
#[derive(Default)]
pub(crate) struct Node<'a> {
    /// Kind of the span, else of its logs.
    pub kind: RecordKind,
    /// The span first, then its logs in the order of their time.
    pub records: Vec<&'a Record>,
    /// Position of the parent, if that has arrived.
    pub parent: Option<usize>,
    /// Position of the nearest call or agent above.
    pub owner: Option<usize>,
    /// Position of the nearest call above.
    pub caller: Option<usize>,
    /// Number of nodes above.
    pub depth: usize,
    /// Name of the agent, the node's own or the nearest above.
    pub agent: Option<&'a str>,
    /// Id of the conversation, the node's own or the nearest above.
    pub conversation: Option<&'a str>,
    /// True if all nodes above have arrived.
    pub is_whole: bool,
}

/// A trace.
pub(crate) struct Tree<'a> {
    /// Nodes, in the order of their first record.
    pub nodes: Vec<Node<'a>>,
    /// Positions, parents before their children.
    pub downward: Vec<usize>,
}

impl<'a> Tree<'a> {
    pub fn of(records: &'a [Record]) -> Self {
        let mut positions: HashMap<&str, usize> = HashMap::new();
        let mut nodes: Vec<Node<'a>> = Vec::new();
        for record in canonical(records) {
            let position = *positions.entry(&record.span).or_insert_with(|| {
                nodes.push(Node::default());
                nodes.len() - 1
            });
            if let Some(node) = nodes.get_mut(position) {
                node.add(record);
            }
        }
        for node in &mut nodes {
            let span_kind = node.records.first().filter(|first| !first.is_log).map(|span| span.kind);
            let told = || node.records.iter().map(|record| record.kind).max_by_key(|kind| rank(*kind));
            // A span knows best, unless it is one that only carries the logs of a call.
            node.kind = span_kind.filter(|kind| rank(*kind) > 1).or_else(told).unwrap_or(RecordKind::Other);
            let parent = node.find(|record| record.parent.as_deref());
            node.parent = parent.and_then(|parent| positions.get(parent).copied());
            node.is_whole = parent.is_none();
        }
        let downward = downward(&mut nodes);
        let mut tree = Self { nodes, downward };
        tree.inherit();
        tree
    }

    /// Passes names, ids and places from parents to their children.
    fn inherit(&mut self) {
        for at in self.downward.clone() {
            let above = self.nodes.get(at).and_then(|node| node.parent);
            let known = above.and_then(|above| Some((above, self.nodes.get(above)?))).map(|(position, above)| {
                let owner = if rank(above.kind) > 1 { Some(position) } else { above.owner };
                let caller = if rank(above.kind) > rank(RecordKind::Agent) { Some(position) } else { above.caller };
                (owner, caller, above.depth + 1, above.agent, above.conversation, above.is_whole)
            });
            let Some(node) = self.nodes.get_mut(at) else { continue };
            node.agent = node.find(|record| record.agent.as_deref());
            node.conversation = node.find(|record| record.conversation.as_deref());
            if let Some((owner, caller, depth, agent, conversation, is_whole)) = known {
                node.owner = owner;
                node.caller = caller;
                node.depth = depth;
                node.agent = node.agent.or(agent);
                node.conversation = node.conversation.or(conversation);
                node.is_whole = is_whole;
            }
        }
    }

    pub fn node(&self, position: usize) -> Option<&Node<'a>> {
        self.nodes.get(position)
    }

    /// Returns the span of the nearest call above a node, or else of the agent.
    pub fn parent_span(&self, node: &Node<'_>) -> Option<String> {
        self.node(node.caller.or(node.owner)?)?.find(|record| Some(record.span.clone()))
    }
}

impl<'a> Node<'a> {
    /// Adds a record. Of a span that is told twice, at its start and at its end, the fuller telling counts.
    fn add(&mut self, record: &'a Record) {
        let fullness = |record: &Record| (record.end, record.parts.len());
        match self.records.first_mut() {
            Some(first) if !record.is_log && !first.is_log => {
                if fullness(record) > fullness(first) {
                    *first = record;
                }
            }
            Some(_) if !record.is_log => self.records.insert(0, record),
            _ => self.records.push(record),
        }
    }

    /// True if no span of the node has arrived.
    pub fn is_log(&self) -> bool {
        self.records.first().is_some_and(|first| first.is_log)
    }

    pub fn start(&self) -> i64 {
        self.records.first().map_or(0, |first| first.start)
    }

    pub fn end(&self) -> i64 {
        self.records.iter().map(|record| record.end).max().unwrap_or_default()
    }

    pub fn find<T>(&self, of: impl Fn(&'a Record) -> Option<T>) -> Option<T> {
        self.records.iter().find_map(|record| of(record))
    }

    /// Parts of a role, in the order of their time.
    pub fn parts(&self, role: PartRole) -> impl Iterator<Item = &'a Part> {
        self.records.iter().flat_map(|record| &record.parts).filter(move |part| part.role == role)
    }

    pub fn has(&self, role: PartRole) -> bool {
        self.parts(role).next().is_some()
    }
}

/// Rank of a kind: calls and agents are above 1.
pub(crate) fn rank(kind: RecordKind) -> u8 {
    match kind {
        RecordKind::Other => 0,
        RecordKind::Wrapper | RecordKind::Prompt => 1,
        RecordKind::Agent => 2,
        RecordKind::Model => 3,
        RecordKind::Tool => 4,
    }
}

/// Returns the records in an order that depends on the records alone, each once.
fn canonical(records: &[Record]) -> Vec<&Record> {
    fn key(record: &Record) -> (i64, i64, &str, bool, u8) {
        (record.start, record.end, &record.span, record.is_log, rank(record.kind))
    }
    let mut sorted: Vec<&Record> = records.iter().collect();
    sorted.sort_by(|a, b| key(a).cmp(&key(b)));
    for run in sorted.chunk_by_mut(|a, b| key(a) == key(b)) {
        let first = run.first().copied();
        if run.iter().any(|record| Some(*record) != first) {
            run.sort_by_cached_key(|record| serde_json::to_string(record).unwrap_or_default());
        }
    }
    sorted.dedup();
    sorted
}

/// Returns the positions with parents before their children. A circle is cut at one of its nodes.
fn downward(nodes: &mut [Node<'_>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(nodes.len());
    let (mut ordered, mut on_path) = (HashSet::<usize>::new(), HashSet::<usize>::new());
    for start in 0..nodes.len() {
        let mut path = Vec::new();
        let mut next = Some(start);
        while let Some(at) = next.filter(|at| !ordered.contains(at)) {
            if !on_path.insert(at) {
                if let Some(last) = path.last().and_then(|last: &usize| nodes.get_mut(*last)) {
                    last.parent = None;
                }
                break;
            }
            path.push(at);
            next = nodes.get(at).and_then(|node| node.parent);
        }
        ordered.extend(&path);
        order.extend(path.into_iter().rev());
    }
    order
}
