//! A component's variables as `fermyon:spin/variables@2.0.0` and as the draft of `wasi:config/store` that Spin serves.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, Linker, Lower};
use wasmtime::{Result, StoreContextMut};

use crate::variables::Variables;

/// `error` of `wasi:config/store`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum ConfigError {
    #[component(name = "upstream")]
    Upstream(String),
    #[component(name = "io")]
    Io(String),
}

/// `error` of `fermyon:spin/variables`.
#[derive(Clone, Debug, ComponentType, Lift, Lower)]
#[component(variant)]
enum VariableError {
    #[component(name = "invalid-name")]
    InvalidName(String),
    #[component(name = "undefined")]
    Undefined(String),
    #[component(name = "provider")]
    Provider(String),
    #[component(name = "other")]
    Other(String),
}

type GetResult = std::result::Result<Option<String>, ConfigError>;
type GetAllResult = std::result::Result<Vec<(String, String)>, ConfigError>;
type VariableResult = std::result::Result<String, VariableError>;

/// Adds the interfaces.
pub fn add_to_linker<T: 'static>(linker: &mut Linker<T>, view: fn(&mut T) -> Arc<Variables>) -> Result<()> {
    let mut config = linker.instance("wasi:config/store@0.2.0-draft-2024-09-27")?;
    config.func_wrap("get", move |mut store: StoreContextMut<'_, T>, (key,): (String,)| {
        let value: GetResult = Ok(view(store.data_mut()).get(&key).cloned());
        Ok((value,))
    })?;
    config.func_wrap("get-all", move |mut store: StoreContextMut<'_, T>, (): ()| {
        let variables = view(store.data_mut());
        let values: GetAllResult = Ok(variables.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
        Ok((values,))
    })?;
    let mut variables = linker.instance("fermyon:spin/variables@2.0.0")?;
    variables.func_wrap("get", move |mut store: StoreContextMut<'_, T>, (name,): (String,)| {
        let value = view(store.data_mut()).get(&name).cloned();
        let undefined = || VariableError::Undefined(format!("the component has no variable `{name}`"));
        let value: VariableResult = value.ok_or_else(undefined);
        Ok((value,))
    })
}
