//! A collector of traces for the tests.

use crate::*;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::sync::Mutex;

/// Accepts spans by OTLP over HTTP.
pub struct Collector {
    pub url: String,
    requests: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

/// A span, decoded.
#[derive(Debug)]
pub struct Span {
    pub name: String,
    pub kind: i32,
    pub trace: String,
    pub id: String,
    /// Empty for a root span.
    pub parent: String,
    pub attributes: BTreeMap<String, String>,
    pub failed: bool,
}

impl Collector {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let received = received.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &received));
            }
        });
        Self { url, requests }
    }

    /// The attributes of each resource.
    pub fn resources(&self) -> Vec<BTreeMap<String, String>> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|request| &request.resource_spans);
        resources.map(|spans| attributes(&spans.resource.as_ref().unwrap().attributes)).collect()
    }

    pub fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let scopes = requests.iter().flat_map(|request| &request.resource_spans).flat_map(|spans| &spans.scope_spans);
        let spans = scopes.flat_map(|scope| &scope.spans).map(|span| {
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
            Span {
                name: span.name.clone(),
                kind: span.kind,
                trace: hex::encode(&span.trace_id),
                id: hex::encode(&span.span_id),
                parent: hex::encode(&span.parent_span_id),
                attributes: attributes(&span.attributes),
                failed: span.status.as_ref().is_some_and(|status| status.code == StatusCode::Error as i32),
            }
        });
        spans.collect()
    }

    /// The only span of that name.
    #[track_caller]
    pub fn span(&self, name: &str) -> Span {
        let mut spans = self.spans();
        let indexes: Vec<usize> = (0..spans.len()).filter(|index| spans[*index].name == name).collect();
        assert_eq!(indexes.len(), 1, "{name} in {spans:#?}");
        spans.swap_remove(indexes[0])
    }
}

fn serve(mut stream: TcpStream, received: &Mutex<Vec<ExportTraceServiceRequest>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap()];
        reader.read_exact(&mut body).unwrap();
        received.lock().unwrap().push(ExportTraceServiceRequest::decode(&*body).unwrap());
        let response = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(response).unwrap();
    }
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.clone()).unwrap() {
        any_value::Value::StringValue(text) => text,
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::BoolValue(truth) => truth.to_string(),
        other => panic!("{other:?}"),
    };
    pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}
