//! Order of loops. The interpreter iterates over mappings in a random order. Here every loop iterates over a mapping's
//! keys in sorted order, so that equal values give equal results.

use cel::{
    ExecutionError, IdedExpr,
    common::{
        ast::{CallExpr, EntryExpr, Expr},
        types::Kind,
    },
};

use super::Function;

/// Function that gives the range of a loop: a list as it is, a mapping's keys in order. No text can name it.
pub(super) const ORDERED: &str = "@ordered";

/// Wraps the range of every loop of an expression in a call of [`ORDERED`].
pub(super) fn put_in_order(node: &mut IdedExpr) {
    match &mut node.expr {
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => {}
        Expr::Select(select) => put_in_order(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(put_in_order),
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).for_each(put_in_order),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    put_in_order(&mut entry.key);
                    put_in_order(&mut entry.value);
                }
            }
        }
        Expr::Comprehension(inner) => {
            let inner = inner.as_mut();
            for part in [
                &mut inner.iter_range,
                &mut inner.accu_init,
                &mut inner.loop_cond,
                &mut inner.loop_step,
                &mut inner.result,
            ] {
                put_in_order(part);
            }
            let range = std::mem::take(&mut inner.iter_range);
            let (id, call) = (range.id, CallExpr { func_name: ORDERED.to_owned(), target: None, args: vec![range] });
            inner.iter_range = IdedExpr { id, expr: Expr::Call(call) };
        }
    }
}

/// Returns the function that [`ORDERED`] names.
pub(super) fn ordered_function() -> Function {
    Box::new(|call| {
        let range = call.args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
        if range.get_type().kind() != Kind::Map {
            return Ok(range);
        }
        let cel::Value::Map(entries) = cel::Value::try_from(range.as_ref())? else { return Ok(range) };
        let mut keys: Vec<_> = entries.map.keys().cloned().collect();
        keys.sort();
        let keys: Vec<cel::Value> = keys.into_iter().map(cel::Value::from).collect();
        Ok(cel::common::value::CowVal::Owned(cel::Value::List(keys.into()).try_into()?))
    })
}
