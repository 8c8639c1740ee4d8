//! Limits of the tools that may be offered. In: rules, once; then a tool and the agent. Out: the verdict of the
//! rules, or the reason why the tool is not offered.

use serde_json::Value;

use umbra_domain::{Effect, GuardVerdict, PolicyRule, ToolName, tool::plain_tool_name};
use umbra_policy::{AgentContext, CallFacts, Expression, Policy};

/// Rules about the tools that may be offered.
#[derive(Debug)]
pub struct OfferRules(Policy);

impl OfferRules {
    /// Compiles rules. Those about arguments are left to the guard of the call: there are no arguments yet.
    ///
    /// # Errors
    /// The first rule that cannot be compiled.
    pub fn of(rules: &[PolicyRule]) -> anyhow::Result<Self> {
        let asks_arguments = |rule: &&PolicyRule| {
            let when = rule.when.as_deref().and_then(|when| Expression::compile(when).ok());
            when.is_some_and(|when| when.variables().any(|name| name == "args"))
        };
        Ok(Self(Policy::compile(rules.iter().filter(|rule| !asks_arguments(rule)).cloned().collect())?))
    }

    /// True if a tool may be named to an agent at all.
    pub fn allows(&self, name: &ToolName, effect: Effect, context: &AgentContext<'_>) -> bool {
        self.judge(name, effect, context).is_ok()
    }

    /// Returns the verdict of the rules on a tool that may be offered.
    ///
    /// # Errors
    /// The reason why it may not be offered.
    pub(super) fn judge(
        &self,
        name: &ToolName,
        effect: Effect,
        context: &AgentContext<'_>,
    ) -> Result<GuardVerdict, String> {
        if std::iter::once(&name.name).chain(&name.server).any(|name| plain_tool_name(name).is_err()) {
            return Err("its name has invisible or ambiguous characters".to_owned());
        }
        let guard = self.0.judge(&CallFacts {
            context: *context,
            tool: name,
            readings: &name.readings(),
            effect,
            args: &Value::Null,
        });
        if guard.verdict == GuardVerdict::Block {
            let (rule, reason) = (guard.rule.unwrap_or_default(), guard.reason.unwrap_or_default());
            return Err(format!("denied by the rule {rule}: {reason}"));
        }
        Ok(guard.verdict)
    }
}
