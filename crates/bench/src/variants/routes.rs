//! `POST /v1/events` and `POST /v1/decide` as simpler services would have them: the same requests through the same
//! front, guards and parser, and answers of the same form.

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    middleware,
    response::Response,
    routing::post,
};
use sqlx::PgPool;

use umbra::{
    api::{
        Api,
        admission::{Admission, Class},
        auth::Caller,
        body::{Media, expect_media},
        entrance::{self, Entrance},
        events::{AcceptedEvent, PATH, answer, invalid, invalid_request},
        problem::Problem,
    },
    ingest::{self, Incoming},
};
use umbra_checks::ScreenedEvent;
use umbra_domain::{Disposition, EventId, Outcome, SkipReason, TriggerMark, key::Scope};
use umbra_store::{StoreError, events::received_at};

/// Endpoints without a database: events are parsed, screened and matched, calls are decided as if no call came before,
/// and both are forgotten. The difference to the service is the cost of storing them.
pub fn without_storing(api: Api, admission: &Admission) -> Router {
    let routes = Router::new().route(PATH, post(forget)).route("/v1/decide", post(decide_and_forget));
    entered(routes, &api, admission).with_state(api)
}

/// The naive endpoint: parses each event and inserts it alone, into our own table with all its indexes. No screening,
/// no matching, no counting.
pub fn one_by_one(api: Api, pool: PgPool, admission: &Admission) -> Router {
    let routes = Router::new().route(PATH, post(insert));
    entered(routes, &api, admission).with_state((api, pool))
}

/// Puts routes behind the entrance of events.
fn entered<S: Clone + Send + Sync + 'static>(routes: Router<S>, api: &Api, admission: &Admission) -> Router<S> {
    let entrance = Entrance::new(api.clone(), admission.clone(), Class::Ingest);
    routes.route_layer(middleware::from_fn_with_state(entrance, entrance::enter))
}

async fn decide_and_forget(
    State(api): State<Api>,
    caller: Caller,
    request: Request,
) -> Result<Json<umbra_boundary::answer::Answer>, Problem> {
    caller.require(Scope::Decide)?;
    expect_media(request.headers(), &[Media::Json])?;
    let body = api.bodies.read(request).await?;
    let call = ingest::call_request(&body, &api.limits).map_err(invalid_request)?.call;
    caller.speak_for(&call.agent)?;
    Ok(Json(api.flows.boundary.decide_alone(call)))
}

async fn forget(State(api): State<Api>, caller: Caller, request: Request) -> Result<Response, Problem> {
    let (incoming, _) = read(&api, &caller, request).await?;
    let rules = api.flows.rules.load();
    let ScreenedEvent { event, triggers, .. } = umbra_checks::screen(incoming.event);
    let matches = rules.watcher.matches(&event, &triggers).into_iter();
    let dispositions = matches
        .filter_map(|found| {
            let shadow = &rules.shadows.get(found.shadow)?.shadow;
            Some(Disposition {
                shadow: shadow.name.clone(),
                trigger: found.trigger,
                mode: shadow.mode,
                outcome: Outcome::Skipped,
                reason: Some(SkipReason::NotSampled),
                review_id: None,
            })
        })
        .collect();
    accepted(EventId(api.flows.clock.new_id()), "none", triggers, dispositions)
}

async fn insert(
    State((api, pool)): State<(Api, PgPool)>,
    caller: Caller,
    request: Request,
) -> Result<Response, Problem> {
    let (Incoming { event, .. }, body) = read(&api, &caller, request).await?;
    let id = EventId(api.flows.clock.new_id());
    // The body as received spares this variant a second serialization.
    let inserting = sqlx::query(
        "INSERT INTO event (id, seq, agent, task_id, shadows, outcomes, triggers, payload)
         VALUES ($1, nextval('one_by_one'), $2, $3, '{}', '{}', '{}', $4)",
    );
    let inserting = inserting.bind(id.0).bind(&event.agent).bind(&event.task_id).bind(&body[..]);
    inserting.execute(&pool).await.map_err(StoreError::from)?;
    accepted(id, "committed", Vec::new(), Vec::new())
}

fn accepted(
    id: EventId,
    durability: &'static str,
    triggers: Vec<TriggerMark>,
    dispositions: Vec<Disposition>,
) -> Result<Response, Problem> {
    let received_at = received_at(id);
    let (spooled, verdict, breaker) = (false, None, None);
    let event = AcceptedEvent { id, received_at, durability, spooled, triggers, dispositions, verdict, breaker };
    answer(StatusCode::ACCEPTED, &event)
}

async fn read(api: &Api, caller: &Caller, request: Request) -> Result<(Incoming, bytes::Bytes), Problem> {
    caller.require(Scope::Ingest)?;
    expect_media(request.headers(), &[Media::Json])?;
    let body = api.bodies.read(request).await?;
    let incoming = ingest::event_alone(&body, &api.limits).map_err(invalid)?;
    caller.speak_for(&incoming.event.agent)?;
    Ok((incoming, body))
}
