//! Facts of one statement: its acts, the functions it calls, the names it uses. In: a syntax tree. Out: lists.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, AlterTableOperation, BinaryOperator, Expr, FromTable, Ident, ObjectName, Query, Select, SelectItem,
    TableFactor, Value, Visit, Visitor,
};

/// One act of a statement, or of a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Shows rows, or explains without running.
    Reads,
    /// Locks the rows that it selects.
    Locks,
    /// Stores what it selects.
    Stores,
    /// Inserts or merges rows.
    Inserts,
    /// Changes rows; true if no condition limits them.
    Updates(bool),
    /// Deletes rows; true if no condition limits them.
    Deletes(bool),
    /// Creates an object, or changes its definition.
    Builds,
    /// Grants or revokes rights.
    Grants,
    /// Drops an object; true if it holds rows or accounts, such as a table; false for a column or a view.
    Drops(bool),
    /// Empties a table.
    Empties,
    /// Any other act.
    Other,
}

/// Name in a statement, its owners first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QualifiedName {
    /// Parts, without quotes.
    pub parts: Vec<String>,
}

/// Facts of one statement.
#[derive(Debug, Default)]
pub struct Statement {
    /// Acts of the statement and of its parts.
    pub acts: Vec<Act>,
    /// Functions called with brackets.
    pub calls: Vec<QualifiedName>,
    /// Columns that are used, any of which may be a function called without brackets.
    pub columns: Vec<QualifiedName>,
    /// Tables that are named.
    pub tables: Vec<QualifiedName>,
    /// Aliases of tables and columns.
    pub aliases: Vec<String>,
}

impl Statement {
    pub(super) fn of(statement: &ast::Statement) -> Self {
        let mut facts = Self::default();
        let _ = statement.visit(&mut facts);
        facts
    }

    fn alias(&mut self, alias: Option<&ast::TableAlias>) {
        self.aliases.extend(alias.map(|alias| alias.name.value.clone()));
    }
}

impl QualifiedName {
    fn of<'i>(parts: impl IntoIterator<Item = &'i Ident>) -> Self {
        Self { parts: parts.into_iter().map(|part| part.value.clone()).collect() }
    }

    fn of_object(name: &ObjectName) -> Self {
        Self {
            parts: name
                .0
                .iter()
                .map(|part| part.as_ident().map_or_else(String::new, |ident| ident.value.clone()))
                .collect(),
        }
    }

    /// Returns the name without its owners.
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    /// Returns the nearest owner of the name, if one is given.
    pub fn owner(&self) -> Option<&str> {
        self.parts.len().checked_sub(2).and_then(|at| self.parts.get(at)).map(String::as_str)
    }
}

impl Visitor for Statement {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &ast::Statement) -> ControlFlow<()> {
        use ast::Statement as S;
        let act = match statement {
            S::Query(_) | S::Return(_) => Act::Reads,
            S::Explain { analyze, options, .. } => {
                let runs = |option: &ast::UtilityOption| option.name.value.to_ascii_lowercase().starts_with("analy");
                self.acts.push(Act::Reads);
                let runs = *analyze || options.iter().flatten().any(runs);
                return if runs { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
            }
            S::Update(update) => {
                Act::Updates(update.from.is_none() && update.limit.is_none() && is_every(update.selection.as_ref()))
            }
            // `DELETE account` may be prose as well.
            S::Delete(delete) if delete.selection.is_none() && matches!(delete.from, FromTable::WithoutKeyword(_)) => {
                Act::Other
            }
            S::Delete(delete) => {
                Act::Deletes(delete.using.is_none() && delete.limit.is_none() && is_every(delete.selection.as_ref()))
            }
            S::Truncate(_) => Act::Empties,
            S::AlterTable(alter) => {
                let drops = |one: &AlterTableOperation| matches!(one, AlterTableOperation::DropColumn { .. });
                if alter.operations.iter().any(drops) { Act::Drops(false) } else { Act::Builds }
            }
            S::Drop { object_type, .. } => {
                use ast::ObjectType as O;
                Act::Drops(matches!(object_type, O::Table | O::Schema | O::Database | O::Role | O::User))
            }
            other => match other.to_string().split(' ').next().unwrap_or_default() {
                "SHOW" | "DESCRIBE" | "DESC" | "EXPLAIN" => Act::Reads,
                "INSERT" | "REPLACE" | "MERGE" => Act::Inserts,
                "CREATE" | "ALTER" | "RENAME" => Act::Builds,
                "DROP" => Act::Drops(false),
                "GRANT" | "REVOKE" | "DENY" => Act::Grants,
                _ => Act::Other,
            },
        };
        self.acts.push(act);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if !query.locks.is_empty() {
            self.acts.push(Act::Locks);
        }
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.alias(Some(&cte.alias));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if select.into.is_some() {
            self.acts.push(Act::Stores);
        }
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.aliases.push(alias.value.clone());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, alias, args, .. } => {
                self.alias(alias.as_ref());
                let name = QualifiedName::of_object(name);
                if args.is_some() { self.calls.push(name) } else { self.tables.push(name) }
            }
            TableFactor::Function { name, alias, .. } => {
                self.alias(alias.as_ref());
                self.calls.push(QualifiedName::of_object(name));
            }
            TableFactor::TableFunction { alias, .. } => {
                self.alias(alias.as_ref());
                self.calls.push(QualifiedName { parts: vec!["table".to_owned()] });
            }
            TableFactor::Derived { alias, .. } => self.alias(alias.as_ref()),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => self.calls.push(QualifiedName::of_object(&function.name)),
            Expr::Identifier(name) => self.columns.push(QualifiedName::of([name])),
            Expr::CompoundIdentifier(parts) => self.columns.push(QualifiedName::of(parts)),
            Expr::CompoundFieldAccess { access_chain, .. } => {
                let fields = access_chain.iter().filter_map(|access| match access {
                    ast::AccessExpr::Dot(Expr::Identifier(name)) => Some(name),
                    _ => None,
                });
                self.columns
                    .extend(fields.map(|name| QualifiedName { parts: vec![String::new(), name.value.clone()] }));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// True if a condition holds for every row.
fn is_every(condition: Option<&Expr>) -> bool {
    let Some(condition) = condition else { return true };
    match condition {
        Expr::Nested(inner) => is_every(Some(inner)),
        Expr::Value(value) => {
            matches!(&value.value, Value::Boolean(true))
                || matches!(&value.value, Value::Number(number, _) if number != "0")
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => is_every(Some(left)) || is_every(Some(right)),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => is_every(Some(left)) && is_every(Some(right)),
        Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => left == right,
        _ => false,
    }
}
