//! Forms, within bounds of size and time.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hexad_deploy::Expected;
use hexad_limits::memory_budget::MemoryBudget;
use hexad_support::bounded_file::MAX_COMPONENT_BYTES;
use hexad_support::digest::Digest;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyDataStream, BodyExt, Limited};
use multer::{Constraints, Multipart, SizeLimit};
use tokio::time::{Instant, timeout, timeout_at};
use url::form_urlencoded;

use crate::upload::{self, PART_TIMEOUT, UPLOAD_TIMEOUT, UploadBody, UploadBuffer, UploadError};

/// The field of the session's token. It comes first, so that no part of a file is used before the token is checked.
pub const TOKEN: &str = "form_token";

/// The digests that the page of the form showed: of the current component, and of the canary.
pub const CURRENT: &str = "current";
pub const CANARY: &str = "canary";

/// A host that the swap leaves out. The field can be repeated.
pub const WITHOUT: &str = "without";

/// The field of the file.
pub const FILE: &str = "file";

/// The largest form without a file, and the largest field of one with a file, in bytes.
const MAX_FORM: usize = 16 * 1024;

/// How long a form without a file may take.
const FORM_TIMEOUT: Duration = Duration::from_secs(30);

/// The fields of a form, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Form {
    fields: Vec<(String, String)>,
    pub file: Bytes,
}

/// Why a form was not read. Each text is for the operator.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    #[error("the form cannot be read: {0}")]
    Invalid(String),
    #[error("this form was not sent by a page of this session; load the page again, and repeat")]
    Foreign,
    #[error(transparent)]
    Upload(#[from] UploadError),
}

impl Form {
    /// The value of a field, without spaces around it. If several fields have the name, the last one counts. `None` if
    /// it is empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let value = self.fields.iter().rev().find(|(field, _)| field == name);
        value.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The values of all fields of that name.
    pub fn texts(&self, name: &str) -> Vec<String> {
        self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.clone()).collect()
    }

    /// The digests that the page of the form showed. The error is a sentence for the operator.
    pub fn expected(&self) -> Result<Expected, String> {
        let digest = |name| self.text(name).map(str::parse::<Digest>).transpose();
        match (digest(CURRENT), digest(CANARY)) {
            (Ok(Some(current)), Ok(canary)) => Ok(Expected { current, canary }),
            _ => Err("The form does not say what it changes. Load the page again, and repeat.".to_owned()),
        }
    }
}

/// Reads a form without a file.
pub async fn read(body: impl UploadBody) -> Result<Form, FormError> {
    let mut body = std::pin::pin!(body);
    let form = read_fields(body.as_mut()).await;
    if form.is_err() {
        // A client that waited for `100 Continue` has received it, and sends the body.
        upload::drain(body).await;
    }
    form
}

async fn read_fields(body: impl UploadBody) -> Result<Form, FormError> {
    let body = timeout(FORM_TIMEOUT, Limited::new(body, MAX_FORM).collect()).await;
    let body = body.map_err(|_| FormError::Invalid(format!("it took longer than {} s", FORM_TIMEOUT.as_secs())))?;
    let body = body.map_err(|error| FormError::Invalid(error.to_string()))?.to_bytes();
    Ok(Form { fields: form_urlencoded::parse(&body).into_owned().collect(), file: Bytes::new() })
}

/// Reads a form with a file. No part of the file is used before `is_own` has accepted the form's token. `headers`
/// are the request's.
pub async fn read_with_file(
    headers: &HeaderMap,
    body: impl UploadBody,
    memory: &Arc<MemoryBudget>,
    is_own: impl Fn(&str) -> bool,
) -> Result<Form, FormError> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = match multer::parse_boundary(content_type) {
        Ok(boundary) => boundary,
        Err(error) => {
            upload::discard(headers, body).await;
            return Err(FormError::Invalid(error.to_string()));
        }
    };
    let mut body = std::pin::pin!(body);
    let form = read_parts(boundary, body.as_mut(), memory, is_own).await;
    if form.is_err() {
        upload::drain(body).await;
    }
    form
}

async fn read_parts(
    boundary: String,
    body: Pin<&mut impl UploadBody>,
    memory: &Arc<MemoryBudget>,
    is_own: impl Fn(&str) -> bool,
) -> Result<Form, FormError> {
    let (field_limit, file_limit) = (MAX_FORM as u64, MAX_COMPONENT_BYTES as u64);
    let limits = SizeLimit::new().whole_stream(file_limit + 8 * field_limit).per_field(field_limit);
    let constraints = Constraints::new().size_limit(limits.for_field(FILE, file_limit));
    let mut parts = Multipart::with_constraints(BodyDataStream::new(body), boundary, constraints);
    let end = Instant::now() + UPLOAD_TIMEOUT;
    let next_part = || end.min(Instant::now() + PART_TIMEOUT);
    let mut form = Form::default();
    loop {
        let field = timeout_at(next_part(), parts.next_field()).await.map_err(|_| UploadError::TooSlow)?;
        let Some(mut field) = field.map_err(multipart_error)? else { break };
        let name = field.name().unwrap_or_default().to_owned();
        if name != TOKEN && !form.text(TOKEN).is_some_and(&is_own) {
            return Err(FormError::Foreign);
        }
        let mut content = UploadBuffer::new(memory);
        loop {
            let chunk = timeout_at(next_part(), field.chunk()).await.map_err(|_| UploadError::TooSlow)?;
            let Some(chunk) = chunk.map_err(multipart_error)? else { break };
            content.push(&chunk)?;
        }
        match name.as_str() {
            FILE => form.file = content.freeze(),
            _ => form.fields.push((name, String::from_utf8_lossy(content.as_ref()).into_owned())),
        }
    }
    match form.text(TOKEN).is_some_and(&is_own) {
        true => Ok(form),
        false => Err(FormError::Foreign),
    }
}

fn multipart_error(error: multer::Error) -> FormError {
    match error {
        multer::Error::FieldSizeExceeded { field_name: Some(name), .. } if name == FILE => UploadError::TooLarge.into(),
        multer::Error::StreamSizeExceeded { .. } => UploadError::TooLarge.into(),
        multer::Error::StreamReadFailed(error) => UploadError::Broken(error).into(),
        error => FormError::Invalid(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http_body_util::Full;

    use super::*;

    fn headers(content_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))])
    }

    fn multipart() -> HeaderMap {
        headers("multipart/form-data; boundary=x")
    }

    fn memory() -> Arc<MemoryBudget> {
        MemoryBudget::new(1 << 20)
    }

    fn part(name: &str, content: &str) -> String {
        format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
    }

    fn block<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    fn with_file(parts: &[String]) -> Result<Form, FormError> {
        let body = parts.concat() + "--x--\r\n";
        let body = Full::new(Bytes::from(body));
        block(read_with_file(&multipart(), body, &memory(), |token| token == "own"))
    }

    #[test]
    fn a_form_has_its_fields() {
        let form = block(read(Full::new(Bytes::from("a=1&a=+2%26&b=&c")))).unwrap();
        assert_eq!((form.text("a"), form.text("b"), form.text("c"), form.text("d")), (Some("2&"), None, None, None));
        assert_eq!((form.texts("a"), form.texts("d")), (vec!["1".to_owned(), " 2&".to_owned()], vec![]));
        assert!(block(read(Full::new(Bytes::from(vec![b'a'; MAX_FORM + 1])))).is_err());
    }

    #[test]
    fn a_file_is_read_after_the_token() {
        let form = with_file(&[part(TOKEN, "own"), part("percent", " 5 "), part(FILE, "\0asm--x\r\n")]).unwrap();
        assert_eq!((form.text("percent"), &form.file[..]), (Some("5"), &b"\0asm--x\r\n"[..]));
        for parts in [
            vec![],
            vec![part(FILE, "x")],
            vec![part(TOKEN, "other"), part(FILE, "x")],
            vec![part("percent", "5"), part(TOKEN, "own")],
        ] {
            assert!(matches!(with_file(&parts), Err(FormError::Foreign)), "{parts:?}");
        }
    }

    #[test]
    fn malformed_and_too_large_forms_are_refused() {
        let large = with_file(&[part(TOKEN, "own"), part("percent", &"1".repeat(MAX_FORM + 1))]);
        assert!(matches!(large, Err(FormError::Invalid(_))), "{large:?}");
        let broken = block(read_with_file(&multipart(), Full::new(Bytes::from("--x\r\n")), &memory(), |_| true));
        assert!(matches!(broken, Err(FormError::Invalid(_))), "{broken:?}");
        let body = Full::new(Bytes::new());
        assert!(block(read_with_file(&headers("text/plain"), body, &memory(), |_| true)).is_err());
    }

    #[test]
    fn a_form_has_the_digests_that_its_page_showed() {
        let digest = |byte: &str| byte.repeat(32);
        let expected = |text: String| block(read(Full::new(Bytes::from(text)))).unwrap().expected();
        let (current, canary) = (digest("0a"), digest("0b"));
        let seen = Expected { current: current.parse().unwrap(), canary: None };
        assert_eq!(expected(format!("current={current}&canary=")), Ok(seen.clone()));
        let on_trial = Expected { canary: canary.parse().ok(), ..seen };
        assert_eq!(expected(format!("current={current}&canary={canary}")), Ok(on_trial));
        for wrong in [format!("canary={canary}"), "current=0a".into(), format!("current={current}&canary=0b")] {
            assert!(expected(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
