//! Configurations as they are written, and what is said about wrong ones.

use super::*;
use crate::elasticsearch::Target;
use crate::http::Credentials;

fn read(text: &str) -> SinkConfig {
    toml::from_str(text).unwrap()
}

/// The error about a configuration.
fn refused(text: &str) -> String {
    match toml::from_str::<SinkConfig>(text) {
        Ok(config) => config.check().map(|_| ()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    }
}

const SEARCH: &str = "name = \"search\"\nurls = [\"https://es1:9200/\"]\n";

#[test]
fn a_whole_configuration() {
    let sink = read(
        r#"
        name = "search"
        urls = ["https://es1:9200", "http://es2:9200/prefix/"]
        user = "loginson"
        password = "hunter22"
        timeout = "1m30s"
        body_bytes_max = "4MiB"
        headers = { X-Found = "yes" }
        queue = { batches_max = 7, bytes_max = "1MiB" }
        retry = { first = "1s", longest = "10s" }
        rejected = { file_bytes_max = "1MiB", rotated_files_max = 0 }
        [elasticsearch]
        index = "logs-%Y.%m.%d"
        operation = "index"
        time_type = "date"
        template = { priority = 300, shards = 2 }
        "#,
    )
    .check()
    .unwrap();
    assert_eq!((sink.runner.queue.batches_max, sink.runner.queue.bytes_max), (7, 1 << 20));
    assert_eq!(sink.runner.backoff.longest.as_secs(), 10);
    assert_eq!((sink.rejects.file_bytes_max, sink.rejects.rotated_files_max), (1 << 20, 0));
    let DestinationOptions::Elasticsearch(options) = &sink.destination else { panic!() };
    assert_eq!(options.client.urls, ["https://es1:9200", "http://es2:9200/prefix"]);
    assert!(
        matches!(&options.client.credentials, Credentials::Basic { user, .. } if user == "loginson")
    );
    assert_eq!(options.client.request_time_max.as_secs(), 90);
    assert_eq!(options.body_bytes_max, 4 << 20);
    assert!(matches!(&options.target, Target::Index(pattern) if pattern.prefix() == "logs-"));
    let template = options.template.as_ref().unwrap();
    assert_eq!((template.name.as_str(), template.priority), ("loginson-search", 300));
    assert!(!format!("{sink:?}").contains("hunter22"));
}

#[test]
fn each_destination_has_defaults() {
    for table in [
        "urls = [\"http://h\"]\n[elasticsearch]\ndata_stream = \"logs-app-default\"",
        "urls = [\"http://h/path?a=b\"]\ncompression = \"zstd\"\n[json_lines]",
        "urls = [\"http://h\"]\n[loginson]\ntype = \"a b\"",
        "urls = [\"http://h\"]\n[loki]\ntenant = \"one\"",
        "compression = \"zstd\"\n[kafka]\nbrokers = [\"h:9092\", \"[::1]:1\"]\ntopic = \"logs\"",
        "[syslog]\naddress = \"[::1]:514\"\ntransport = \"udp\"",
        "[file]\npath = \"/tmp/out.jsonl\"\nfile_age_max = \"1d\"\ncompress = \"gzip\"",
    ] {
        let sink = read(&format!("name = \"x\"\n{table}")).check().unwrap();
        if let Err(fault) = sink.destination() {
            panic!("{table}: {fault}");
        }
    }
}

#[test]
fn errors_name_the_key_and_the_remedy() {
    let kafka = |rest: &str| format!("name = \"x\"\n[kafka]\n{rest}");
    let search = |rest: &str| format!("{SEARCH}{rest}");
    for (text, expected) in [
        ("name = \"A b\"".to_owned(), "sinks.name: 'A b' is no name; write 1 to 64 lower-case"),
        ("name = \"x\"".to_owned(), "sinks.x.destination: has 0 destinations; give exactly one of"),
        ("name = \"x\"\n[loki]\n[file]".to_owned(), "sinks.x.destination: has 2 destinations"),
        ("name = \"x\"\n[loki]".to_owned(), "sinks.x.urls: is missing; write for example"),
        (
            "name = \"x\"\nurls = [\"https://me:hunter22@h\"]\n[loki]".to_owned(),
            "sinks.x.urls: leave name and password out of the address",
        ),
        (
            "name = \"x\"\nurls = [\"h:9200\"]\n[loki]".to_owned(),
            "sinks.x.urls: 'h:9200' is no address",
        ),
        ("name = \"x\"\nurls = [\"http://h?a=b\"]\n[loki]".to_owned(), "from '?' or '#' on"),
        ("name = \"x\"\nca = \"f\"\n[syslog]".to_owned(), "sinks.x.ca: is for destinations"),
        (
            "name = \"x\"\n[syslog]\naddress = \"h\"".to_owned(),
            "sinks.x.syslog.address: 'h' is no address; write HOST:PORT",
        ),
        ("name = \"x\"\n[file]".to_owned(), "sinks.x.file.path: is missing"),
        (
            "name = \"x\"\n[kafka]".to_owned(),
            "sinks.x.kafka.brokers: is missing; write for example",
        ),
        (kafka("brokers = [\":1\"]\ntopic = \"a\""), "sinks.x.kafka.brokers: ':1' is no address"),
        (kafka("brokers = [\"h:1\"]\ntopic = \"a b\""), "sinks.x.kafka.topic: 'a b' is no name"),
        (
            kafka("brokers = [\"h:1\"]\ntopic = \"a\"\nsasl = \"plain\""),
            "sinks.x.kafka.sasl: needs a login; add `user`",
        ),
        (
            "name = \"x\"\nca = \"f\"\n[kafka]\nbrokers = [\"h:1\"]\ntopic = \"a\"".to_owned(),
            "sinks.x.kafka.tls: is false although `ca` is given",
        ),
        (
            "name = \"x\"\ntoken = \"hunter22\"\n[kafka]\nbrokers = [\"h:1\"]".to_owned(),
            "sinks.x.token: is for destinations that are reached over HTTP",
        ),
        (
            search("token_env = \"NO_SUCH_VARIABLE\"\n[loki]"),
            "sinks.search.token_env: the environment",
        ),
        (search("token = \"hunter22\"\ntoken_env = \"PATH\"\n[loki]"), "give it once: here, by"),
        (search("timeout = \"30\"\n[loki]"), "sinks.search.timeout: '30' is not a duration; write"),
        (search("timeout = \"0s\"\n[loki]"), "sinks.search.timeout: must be longer than 0"),
        (
            search("body_bytes_max = \"1GiB\"\n[loki]"),
            "sinks.search.body_bytes_max: '1GiB' is out of range",
        ),
        (
            search("compression = \"zstd\"\n[loki]"),
            "sinks.search.compression: 'zstd' is unknown; write one of: gzip, none",
        ),
        (search("user = \"u\"\n[loki]"), "sinks.search.user: has no password; add `password_file`"),
        (search("api_key = \"hunter22\"\ntoken = \"hunter22\"\n[loki]"), "give only one of"),
        (search("token = \"hunter22\\n\"\n[loki]"), "sinks.search.token: is empty, or contains"),
        (
            search("token_file = \"/nonexistent\"\n[loki]"),
            "sinks.search.token_file: cannot read /nonexistent",
        ),
        (search("headers = { Authorization = \"hunter22\" }\n[loki]"), "is made by the sink"),
        (
            search("queue = { batches_max = 0 }\n[loki]"),
            "sinks.search.queue.batches_max: must be at least 1",
        ),
        (search("retry = { first = \"2m\" }\n[loki]"), "sinks.search.retry.longest: is shorter"),
        (search("[elasticsearch]"), "sinks.search.elasticsearch.index: give either `index`"),
        (search("[elasticsearch]\nindex = \"Logs\""), "'Logs' is no name of an index"),
        (search("[elasticsearch]\nindex = \"logs-%y\""), "use %Y, %m, %d, %H"),
        (search("[elasticsearch]\nindex = \"%Y\""), "must begin with a fixed text"),
        (
            search("[elasticsearch]\ndata_stream = \"a\"\noperation = \"index\""),
            "takes new documents only",
        ),
        (
            search("[elasticsearch]\nindex = \"a\"\npipeline = \"a&b\""),
            "elasticsearch.pipeline: must consist",
        ),
        (
            search("[loginson]\nparameters = { _time_field = \"a\" }"),
            "'_time_field' is given twice",
        ),
        (search("[loki]\nlabels = { a-b = \"c\" }"), "sinks.search.loki.labels: 'a-b' is no label"),
        (search("[loki]\nlabel = \"x\""), "unknown field `label`"),
        (search("tiemout = \"1s\"\n[loki]"), "unknown field `tiemout`"),
    ] {
        let error = refused(&text);
        assert!(error.contains(expected), "{text}\ngave: {error}\nnot: {expected}");
        assert!(!error.contains("hunter22"), "{error}");
    }
}

#[test]
fn secrets_come_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, "c2VjcmV0\n").unwrap();
    let text = format!("{SEARCH}api_key_file = {path:?}\n[elasticsearch]\nindex = \"a\"");
    let sink = read(&text).check().unwrap();
    let DestinationOptions::Elasticsearch(options) = sink.destination else { panic!() };
    assert_eq!(options.client.credentials, Credentials::ApiKey(Secret::new("c2VjcmV0")));
}

#[test]
fn parameters_of_loginson_are_escaped() {
    let sink = read(
        "name = \"x\"\nurls = [\"http://h\"]\n[loginson]\ntype = \"a&b\"\nmessage_field = \"m\"\n\
         stream_fields = [\"host\", \"app\"]\nparameters = { extra_fields = \"dc=ü\" }",
    )
    .check()
    .unwrap();
    let DestinationOptions::JsonLines(options) = sink.destination else { panic!() };
    assert_eq!(
        options.query,
        "/insert/jsonline?_time_field=_time&_type=a%26b&_msg_field=m&_stream_fields=host%2Capp\
         &extra_fields=dc%3D%C3%BC"
    );
}
