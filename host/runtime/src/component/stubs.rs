//! Interfaces of Spin's and WASI's published worlds that this host does not supply. Toolchains whose components import a
//! whole world, such as Spin's for Python, do not remove the imports that a component never calls. A call of a stub
//! returns an error of the interface's own, or it ends the instance.
//!
//! The list is closed: any other import that the host does not supply is refused at load.

use std::collections::BTreeSet;

use hexad_telemetry::metrics::UnsupportedImport;
use wasmtime::component::types::{ComponentFunc, ComponentItem, Type};
use wasmtime::component::{Component, Linker, LinkerInstance, ResourceType, Val};

use crate::guest::Guest;

/// The release candidate of WASI 0.3 that Spin 4 has in its world.
const CANDIDATE: &str = "0.3.0-rc-2026-03-15";

/// Packages with versions and interfaces. Sources: the worlds `spin:up/platform@4.1.0` and `fermyon:spin/host` of Spin,
/// `wasi:cli/imports@0.3.0`, and the drafts that WASI's proposals name.
const STUBS: &[(&str, &[&str], &[&str])] = &[
    ("fermyon:spin", &["2.0.0"], &["llm", "mqtt", "mysql", "postgres", "rdbms-types", "redis", "sqlite"]),
    (
        "fermyon:spin",
        &[""],
        &[
            "config",
            "http",
            "http-types",
            "key-value",
            "llm",
            "mysql",
            "postgres",
            "rdbms-types",
            "redis",
            "redis-types",
            "sqlite",
        ],
    ),
    ("spin:mqtt", &["3.0.0"], &["mqtt"]),
    ("spin:mysql", &["3.0.0"], &["mysql"]),
    ("spin:postgres", &["3.0.0", "4.0.0", "4.1.0", "4.2.0"], &["postgres"]),
    ("spin:redis", &["3.0.0"], &["redis"]),
    ("spin:sqlite", &["3.0.0", "3.1.0"], &["sqlite"]),
    (
        "wasi:cli",
        &[CANDIDATE],
        &[
            "environment",
            "exit",
            "stderr",
            "stdin",
            "stdout",
            "terminal-input",
            "terminal-output",
            "terminal-stderr",
            "terminal-stdin",
            "terminal-stdout",
            "types",
        ],
    ),
    ("wasi:clocks", &[CANDIDATE], &["monotonic-clock", "system-clock", "timezone", "types"]),
    ("wasi:config", &["0.2.0-draft"], &["runtime"]),
    ("wasi:filesystem", &["0.3.0", CANDIDATE], &["preopens", "types"]),
    ("wasi:http", &[CANDIDATE], &["client", "types"]),
    ("wasi:logging", &["0.1.0-draft"], &["logging"]),
    ("wasi:otel", &["0.2.0-rc.2"], &["logs", "metrics", "tracing", "types"]),
    ("wasi:random", &[CANDIDATE], &["insecure", "insecure-seed", "random"]),
    ("wasi:sockets", &["0.3.0", CANDIDATE], &["ip-name-lookup", "types"]),
];

/// Cases of an interface's error with a text, in the order of preference.
const TEXT_CASES: [&str; 4] = ["other", "runtime-error", "io", "connection-failed"];

/// Cases of an interface's error without a value, in the order of preference.
const PLAIN_CASES: [&str; 5] = ["not-supported", "unsupported", "access-denied", "not-permitted", "error"];

/// The resource of stubs, of which there is no value.
enum Nothing {}

fn is_in_list(import: &str) -> bool {
    let (path, version) = import.split_once('@').unwrap_or((import, ""));
    let Some((package, interface)) = path.split_once('/') else { return false };
    let has = |(name, versions, interfaces): &&(&str, &[&str], &[&str])| {
        *name == package && versions.contains(&version) && interfaces.contains(&interface)
    };
    STUBS.iter().any(|row| has(&row))
}

/// The component's imports that are stubs, sorted.
pub fn of(component: &Component) -> BTreeSet<String> {
    let ty = component.component_type();
    ty.imports(component.engine()).map(|(name, _)| name.to_owned()).filter(|name| is_in_list(name)).collect()
}

/// The host's linker with stubs for these imports of a component.
pub fn add(linker: &Linker<Guest>, component: &Component, stubs: &BTreeSet<String>) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = linker.clone();
    let ty = component.component_type();
    for (name, item) in ty.imports(component.engine()).filter(|(name, _)| stubs.contains(*name)) {
        add_item(&mut linker.root(), None, name, item.ty, component)?;
    }
    Ok(linker)
}

/// The imports that a linker does not supply, by the error of its attempt to link a component.
pub fn missing(mut linker: Linker<Guest>, component: &Component, error: &wasmtime::Error) -> Vec<String> {
    let ty = component.component_type();
    let (mut missing, mut text) = (Vec::<String>::new(), format!("{error:#}"));
    // The error names the first import. With a stub in its place, it names the next one.
    loop {
        let named = |name: &str| text.contains(&format!("`{name}`")) && missing.iter().all(|known| known != name);
        let Some((name, item)) = ty.imports(component.engine()).find(|(name, _)| named(name)) else { return missing };
        missing.push(name.to_owned());
        linker.allow_shadowing(true);
        if add_item(&mut linker.root(), None, name, item.ty, component).is_err() {
            return missing;
        }
        match linker.instantiate_pre(component) {
            Ok(_) => return missing,
            Err(error) => text = format!("{error:#}"),
        }
    }
}

fn add_item(
    linker: &mut LinkerInstance<'_, Guest>,
    interface: Option<&str>,
    name: &str,
    item: ComponentItem,
    component: &Component,
) -> wasmtime::Result<()> {
    match item {
        ComponentItem::ComponentInstance(instance) => {
            let mut inner = linker.instance(name)?;
            for (export, item) in instance.exports(component.engine()) {
                add_item(&mut inner, Some(name), export, item.ty, component)?;
            }
            Ok(())
        }
        ComponentItem::Resource(_) => linker.resource(name, ResourceType::host::<Nothing>(), |_, _| Ok(())),
        ComponentItem::ComponentFunc(function) => {
            let called = interface.map_or_else(|| name.to_owned(), |interface| format!("{interface}#{name}"));
            match function.async_() {
                true => linker.func_new_concurrent(name, move |_, ty, _, results| {
                    let failed = fail(&called, &ty, results);
                    Box::pin(async move { failed })
                }),
                false => linker.func_new(name, move |_, ty, _, results| fail(&called, &ty, results)),
            }
        }
        _ => Ok(()),
    }
}

/// The outcome of a call: an error of the interface's own if it has one that tells.
fn fail(called: &str, ty: &ComponentFunc, results: &mut [Val]) -> wasmtime::Result<()> {
    if let (Some(Type::Result(result)), [slot]) = (ty.results().next(), results)
        && let Some(error) = result.err().and_then(|error| error_of(called, &error))
    {
        *slot = Val::Result(Err(Some(Box::new(error))));
        return Ok(());
    }
    Err(UnsupportedImport(called.to_owned()).into())
}

fn error_of(called: &str, ty: &Type) -> Option<Val> {
    let text = || Val::String(format!("this host does not supply `{called}`"));
    match ty {
        Type::String => Some(text()),
        Type::Enum(ty) => {
            let case = PLAIN_CASES.iter().find(|case| ty.names().any(|name| name == **case))?;
            Some(Val::Enum((*case).to_owned()))
        }
        Type::Variant(ty) => {
            let has_text =
                |case: &&&str| ty.cases().any(|known| known.name == **case && known.ty == Some(Type::String));
            if let Some(case) = TEXT_CASES.iter().find(has_text) {
                return Some(Val::Variant((*case).to_owned(), Some(Box::new(text()))));
            }
            let is_plain = |case: &&&str| ty.cases().any(|known| known.name == **case && known.ty.is_none());
            let case = PLAIN_CASES.iter().find(is_plain)?;
            Some(Val::Variant((*case).to_owned(), None))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Runtime;

    fn component(text: &str) -> (std::sync::Arc<Runtime>, Component) {
        let runtime = Runtime::new(None).unwrap();
        let component = Component::new(runtime.engine(), wat::parse_str(text).unwrap()).unwrap();
        (runtime, component)
    }

    #[test]
    fn no_stub_replaces_what_the_host_supplies() {
        for (package, versions, interfaces) in STUBS {
            for (version, interface) in versions.iter().flat_map(|version| interfaces.iter().map(move |i| (version, i)))
            {
                let version = if version.is_empty() { String::new() } else { format!("@{version}") };
                let name = format!("{package}/{interface}{version}");
                let text = format!(r#"(component (import "{name}" (instance (export "x" (func)))))"#);
                let (runtime, component) = component(&text);
                assert!(runtime.linker().instantiate_pre(&component).is_err(), "{name} has a function `x`");
                let stubs = of(&component);
                assert_eq!(stubs.len(), 1, "{name}");
                add(runtime.linker(), &component, &stubs).unwrap().instantiate_pre(&component).unwrap();
            }
        }
    }

    #[test]
    fn names_beside_the_list_are_no_stubs() {
        let names = [
            "hexad:platform/area@0.1.0",
            "spin:sqlite/sqlite@3.2.0",
            "spin:sqlite/other@3.0.0",
            "spin:sqlite/sqlite",
            "wasi:http/types@0.3.0",
            "wasi:filesystem/types@0.2.6",
            "fermyon:spin/key-value@2.0.0",
            "x",
        ];
        for name in names {
            assert!(!is_in_list(name), "{name}");
        }
    }
}
