//! The MCP server that a client sees, in front of one or several servers.

#![expect(deprecated, reason = "levels of logs and subscriptions of resources are part of 2025-11-25")]

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, CompleteRequest,
        CompleteRequestParams, CompleteResult, Cursor, CustomRequest, CustomResult, DiscoverResult, ErrorCode,
        Extensions, GetPromptRequest, GetPromptRequestParams, GetPromptResponse, InitializeRequestParams,
        InitializeResult, ListPromptsRequest, ListPromptsResult, ListResourceTemplatesRequest,
        ListResourceTemplatesResult, ListResourcesRequest, ListResourcesResult, ListToolsResult,
        PaginatedRequestParams, ReadResourceRequest, ReadResourceRequestParams, ReadResourceResponse, Reference,
        ResultType, ServerCapabilities, ServerConfig, ServerResult, SetLevelRequest, SetLevelRequestParams,
        SubscribeRequest, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequest, UnsubscribeRequestParams,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext},
};
use serde_json::{Value, json};

use super::{
    gateway::{McpCaller, McpGateway},
    results,
    selection::ResolvedCall,
    server_notices,
    upstream::{Upstream, UpstreamError, UpstreamRequestContext},
};

/// Most pages of a list that is put together from several servers.
const PAGES: usize = 64;

/// Prefixes of the protocol's methods.
const KNOWN: [&str; 12] = [
    "completion/",
    "initialize",
    "logging/",
    "ping",
    "prompts/",
    "resources/",
    "server/",
    "skills/",
    "subscriptions/",
    "tasks/",
    "tools/",
    "notifications/",
];

/// Message for a question of the server that is not passed on.
const ASKS_BACK: &str =
    "the server asks the client for input, which this proxy passes on only to clients of protocol 2026-07-28 or later";

/// Server side of a client's connection, or of one request.
#[derive(Clone)]
pub struct ProxyServer {
    gateway: Arc<McpGateway>,
    /// Caller over standard input and output; over HTTP each request carries its own.
    alone: Option<Arc<McpCaller>>,
}

type Answer<T> = Result<T, ErrorData>;
type Context = RequestContext<RoleServer>;

impl ProxyServer {
    /// Returns the server for one client.
    pub(super) fn for_one_client(gateway: Arc<McpGateway>, caller: McpCaller) -> Self {
        Self { gateway, alone: Some(Arc::new(caller)) }
    }

    /// Returns the server for clients whose requests carry their [`McpCaller`].
    pub(super) fn for_many_clients(gateway: Arc<McpGateway>) -> Self {
        Self { gateway, alone: None }
    }

    fn caller(&self, extensions: &Extensions) -> Answer<Arc<McpCaller>> {
        let parts = || extensions.get::<http::request::Parts>()?.extensions.get::<Arc<McpCaller>>().cloned();
        let caller = self.alone.clone().or_else(parts);
        caller.ok_or_else(|| ErrorData::internal_error("a request without a caller", None))
    }

    /// Sends a request to the server that offers an item of this shown name.
    async fn ask_named(
        &self,
        context: &Context,
        shown: &str,
        request: impl FnOnce(String) -> ClientRequest,
    ) -> Answer<ServerResult> {
        let caller = self.caller(&context.extensions)?;
        let unknown = || ErrorData::invalid_params("no prompt or resource has this name", Some(json!({"name": shown})));
        let (upstream, name) = self.gateway.resolve_name(&caller.agent, shown).ok_or_else(unknown)?;
        Ok(upstream.ask(request(name.to_owned()), UpstreamRequestContext::of(context)).await?)
    }

    /// Sends a request to the server that offers the resource of this URI.
    async fn ask_about(&self, context: &Context, uri: &str, request: ClientRequest) -> Answer<ServerResult> {
        let caller = self.caller(&context.extensions)?;
        Ok(self.gateway.ask_about(&caller.agent, uri, request, UpstreamRequestContext::of(context)).await?)
    }

    /// Lists the items of all servers that have such; with a single server, returns its pages as they are.
    async fn listed<T>(
        &self,
        context: &Context,
        page: Option<PaginatedRequestParams>,
        has: fn(&ServerCapabilities) -> bool,
        ask: fn(Option<PaginatedRequestParams>) -> ClientRequest,
        mut take: impl FnMut(usize, &Upstream, ServerResult) -> Option<(Vec<T>, Option<Cursor>)>,
    ) -> Answer<(Vec<T>, Option<Cursor>)> {
        let caller = self.caller(&context.extensions)?;
        let odd = || ErrorData::internal_error("the server's answer is not the list that was asked for", None);
        let mut all = Vec::new();
        for (index, upstream) in self.gateway.visible_to(&caller.agent) {
            if upstream.server_info().is_some_and(|says| !has(&says.capabilities)) {
                continue;
            }
            if self.gateway.upstreams.len() == 1 {
                let answer = upstream.ask(ask(page), UpstreamRequestContext::of(context)).await?;
                return take(index, upstream, answer).ok_or_else(odd);
            }
            let mut cursor = None;
            for _ in 0..PAGES {
                let page = PaginatedRequestParams::default().with_cursor(cursor);
                // A server that is away, or has no such list, does not affect the other servers' items.
                let Ok(answer) = upstream.ask(ask(Some(page)), UpstreamRequestContext::of(context)).await else {
                    break;
                };
                let Some((items, next)) = take(index, upstream, answer) else { break };
                all.extend(items);
                cursor = next;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok((all, None))
    }
}

/// Sets the result type, which servers of before 2026-07-28 leave out; for clients of before then it is removed again.
fn complete(mut result: CallToolResult) -> CallToolResponse {
    result.result_type = Some(ResultType::COMPLETE);
    result.into()
}

fn odd<T>(_: ServerResult) -> Answer<T> {
    Err(ErrorData::internal_error("the server's answer is not a result of this request", None))
}

/// Passes on a question of the server to clients that can answer one, since 2026-07-28.
fn asks_back<T>(context: &Context, question: T) -> Answer<T> {
    if is_modern(context) { Ok(question) } else { Err(ErrorData::invalid_request(ASKS_BACK, None)) }
}

/// True since 2026-07-28: results have a type and a cache scope.
fn is_modern(context: &Context) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// Marks a list as private to this credential.
macro_rules! private {
    ($list:ident::of($listed:expr), $context:expr) => {{
        let (items, next) = $listed;
        let mut result = $list::with_all_items(items);
        result.next_cursor = next;
        private!(result, $context)
    }};
    ($result:expr, $context:expr) => {{
        let mut result = $result;
        if is_modern(&$context) {
            result.result_type = Some(ResultType::COMPLETE);
            result.ttl_ms = Some(0);
            result.cache_scope = Some(CacheScope::Private);
        }
        result
    }};
}

impl ServerHandler for ProxyServer {
    fn get_info(&self) -> ServerConfig {
        let agent = self.alone.as_ref().map(|caller| caller.agent.as_str());
        self.gateway.info(agent, self.alone.is_some())
    }

    async fn initialize(&self, request: InitializeRequestParams, context: Context) -> Answer<InitializeResult> {
        let caller = self.caller(&context.extensions)?;
        self.gateway.connect(&caller.agent).await;
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions = self.gateway.info(Some(&caller.agent), self.alone.is_some()).instructions;
        Ok(result)
    }

    async fn discover(&self, context: Context) -> Answer<DiscoverResult> {
        let caller = self.caller(&context.extensions)?;
        self.gateway.connect(&caller.agent).await;
        let info = self.gateway.info(Some(&caller.agent), self.alone.is_some());
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        server_notices::tell_all(self.gateway.subscribe_news(), context.peer, self.alone.is_some()).await;
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut filter = SubscriptionFilter::default();
        filter.tools_list_changed = Some(true);
        filter.prompts_list_changed = Some(true);
        filter.resources_list_changed = Some(true);
        Some(filter)
    }

    async fn listen(&self, context: SubscriptionContext) -> Answer<()> {
        server_notices::tell_subscriber(self.gateway.subscribe_news(), context).await;
        Ok(())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, context: Context) -> Answer<ListToolsResult> {
        let caller = self.caller(&context.extensions)?;
        let tools = self.gateway.list(&caller, UpstreamRequestContext::of(&context)).await?;
        Ok(private!(ListToolsResult::with_all_items(tools), context))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Answer<CallToolResponse> {
        let caller = self.caller(&context.extensions)?;
        let asking = UpstreamRequestContext::of(&context);
        let request = match self.gateway.resolve_call(&caller, request, asking).await {
            Ok(ResolvedCall::Call(request)) => request,
            Ok(ResolvedCall::Answer(result)) => return Ok(complete(result)),
            Err(error) => return Ok(complete(results::failure(error.to_string()))),
        };
        let found = self.gateway.find(&caller.agent, &request.name, asking).await;
        let answer = match found {
            Ok(Some((upstream, entry))) => self.gateway.call(&caller, (upstream, &entry), request, &context).await,
            Ok(None) => {
                let words = match self.gateway.selection {
                    Some(_) => "tool not found: search_tools finds the available tools",
                    None => "tool not found: tools/list names the available tools",
                };
                return Err(ErrorData::invalid_params(words, Some(json!({"name": request.name}))));
            }
            Err(error) => Err(error),
        };
        match answer {
            Ok(CallToolResponse::Complete(result)) => Ok(complete(result)),
            Ok(CallToolResponse::InputRequired(_)) if !is_modern(&context) => Ok(results::failure(ASKS_BACK).into()),
            Ok(other) => Ok(other),
            Err(UpstreamError::Refused(error)) => Err(error),
            Err(error) => Ok(results::failure(error.to_string()).into()),
        }
    }

    async fn list_prompts(&self, page: Option<PaginatedRequestParams>, context: Context) -> Answer<ListPromptsResult> {
        let take = |_: usize, upstream: &Upstream, answer| {
            let ServerResult::ListPromptsResult(mut result) = answer else { return None };
            result.prompts.iter_mut().for_each(|prompt| prompt.name = self.gateway.shown(upstream, &prompt.name));
            Some((result.prompts, result.next_cursor))
        };
        let ask =
            |params| ClientRequest::ListPromptsRequest(ListPromptsRequest { params, ..ListPromptsRequest::default() });
        let listed = self.listed(&context, page, |has| has.prompts.is_some(), ask, take).await?;
        Ok(private!(ListPromptsResult::of(listed), context))
    }

    async fn get_prompt(&self, request: GetPromptRequestParams, context: Context) -> Answer<GetPromptResponse> {
        let shown = request.name.clone();
        let ask = |name| {
            let mut request = request;
            request.name = name;
            ClientRequest::GetPromptRequest(GetPromptRequest::new(request))
        };
        match self.ask_named(&context, &shown, ask).await? {
            ServerResult::GetPromptResult(mut result) => {
                result.result_type = Some(ResultType::COMPLETE);
                Ok(GetPromptResponse::Complete(result))
            }
            ServerResult::InputRequiredResult(result) => asks_back(&context, GetPromptResponse::InputRequired(result)),
            other => odd(other),
        }
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Answer<ListResourcesResult> {
        let take = |index, _: &Upstream, answer| {
            let ServerResult::ListResourcesResult(result) = answer else { return None };
            for resource in &result.resources {
                self.gateway.note_place(&resource.uri, index);
            }
            Some((result.resources, result.next_cursor))
        };
        let ask = |params| {
            ClientRequest::ListResourcesRequest(ListResourcesRequest { params, ..ListResourcesRequest::default() })
        };
        let listed = self.listed(&context, page, |has| has.resources.is_some(), ask, take).await?;
        Ok(private!(ListResourcesResult::of(listed), context))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: Context,
    ) -> Answer<ListResourceTemplatesResult> {
        let take = |index, _: &Upstream, answer| {
            let ServerResult::ListResourceTemplatesResult(result) = answer else { return None };
            let templates = result.resource_templates;
            for template in &templates {
                self.gateway.note_place(&template.uri_template, index);
            }
            Some((templates, result.next_cursor))
        };
        let ask = |params| {
            let none = ListResourceTemplatesRequest::default();
            ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest { params, ..none })
        };
        let listed = self.listed(&context, page, |has| has.resources.is_some(), ask, take).await?;
        Ok(private!(ListResourceTemplatesResult::of(listed), context))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: Context,
    ) -> Answer<ReadResourceResponse> {
        let uri = request.uri.clone();
        let request = ClientRequest::ReadResourceRequest(ReadResourceRequest::new(request));
        match self.ask_about(&context, &uri, request).await? {
            ServerResult::ReadResourceResult(result) => Ok(ReadResourceResponse::Complete(private!(result, context))),
            ServerResult::InputRequiredResult(result) => {
                asks_back(&context, ReadResourceResponse::InputRequired(result))
            }
            other => odd(other),
        }
    }

    async fn complete(&self, mut request: CompleteRequestParams, context: Context) -> Answer<CompleteResult> {
        let answer = match request.r#ref.clone() {
            Reference::Resource(of) => {
                let request = ClientRequest::CompleteRequest(CompleteRequest::new(request));
                self.ask_about(&context, &of.uri, request).await?
            }
            Reference::Prompt(of) => {
                let ask = |name| {
                    let mut prompt = of.clone();
                    prompt.name = name;
                    request.r#ref = Reference::Prompt(prompt);
                    ClientRequest::CompleteRequest(CompleteRequest::new(request))
                };
                self.ask_named(&context, &of.name, ask).await?
            }
            _ => return Err(ErrorData::invalid_params("completion works only for prompts and resources", None)),
        };
        let ServerResult::CompleteResult(mut result) = answer else { return odd(answer) };
        result.result_type = Some(ResultType::COMPLETE);
        Ok(result)
    }

    async fn set_level(&self, request: SetLevelRequestParams, context: Context) -> Answer<()> {
        let caller = self.caller(&context.extensions)?;
        for (_, upstream) in self.gateway.visible_to(&caller.agent) {
            let request = ClientRequest::SetLevelRequest(SetLevelRequest::new(request.clone()));
            if upstream.server_info().is_some_and(|says| says.capabilities.logging.is_some()) {
                upstream.ask(request, UpstreamRequestContext::of(&context)).await?;
            }
        }
        Ok(())
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: Context) -> Answer<()> {
        let uri = request.uri.clone();
        let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(request));
        self.ask_about(&context, &uri, request).await.map(drop)
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, context: Context) -> Answer<()> {
        let uri = request.uri.clone();
        let request = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(request));
        self.ask_about(&context, &uri, request).await.map(drop)
    }

    /// Passes an unknown method to the only server, if the boundary permits: its effect is unknown, so it is decided as
    /// a tool of that name. A known method comes here only with malformed parameters, and is refused: a less strict
    /// server would run it without a decision.
    async fn on_custom_request(&self, request: CustomRequest, context: Context) -> Answer<CustomResult> {
        let caller = self.caller(&context.extensions)?;
        // A less strict server may read such a spelling as a known method.
        let plain: String = request.method.chars().filter(char::is_ascii_graphic).collect::<String>().to_lowercase();
        let known = plain != request.method.to_lowercase() || KNOWN.iter().any(|family| plain.starts_with(family));
        let mut open = self.gateway.visible_to(&caller.agent);
        let (false, Some((_, upstream)), None) = (known, open.next(), open.next()) else {
            return Err(if known {
                ErrorData::invalid_params("the parameters do not fit this method", None)
            } else {
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)
            });
        };
        let value = self.gateway.call_custom(&caller, upstream, request, &context).await?;
        Ok(CustomResult::new(match value {
            Value::Object(mut members) if is_modern(&context) => {
                members.entry("resultType").or_insert_with(|| json!("complete"));
                Value::Object(members)
            }
            other => other,
        }))
    }
}
