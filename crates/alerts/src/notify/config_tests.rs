//! Notifiers as the configuration writes them.

use super::*;

fn check(text: &str) -> Result<Vec<NotifierOptions>, ConfigError> {
    let config: NotifierConfig = toml::from_str(text)
        .map_err(|error| ConfigError { key: String::new(), what: error.to_string() })?;
    config.check("http://logs")
}

fn with(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn notifiers_are_checked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "hush\n").unwrap();
    let hush = file.path().display();
    let (hook, key) = (with("https://h/hook"), with("0123456789abcdef0123456789abcdef"));
    let (hook, key) = (hook.path().display(), key.path().display());
    let mail = "server = \"mail:587\"\nfrom = \"a@b.c\"\nto = [\"d@e.f\"]";
    for (text, expected) in [
        ("name = 'a'\n[webhook]\nurl = 'http://h/x'".to_owned(), Ok("a")),
        (format!("name = 'a'\n[webhook]\nurl_file = '{hush}'"), Err("webhook.url: is no address")),
        ("name = 'A'".to_owned(), Err("no name")),
        ("name = 'a'".to_owned(), Err("exactly one")),
        ("name = 'a'\n[webhook]".to_owned(), Err("one of `url`")),
        ("name = 'a'\n[webhook]\nurl = 'http://u:p@h'".to_owned(), Err("leave name and password")),
        ("name = 'a'\n[webhook]\nurl = 'ftp://h'".to_owned(), Err("no address")),
        ("name = 'a'\nmatchers = ['x']\n[webhook]\nurl = 'http://h'".to_owned(), Err("matcher")),
        (
            "name = 'a'\nrepeat_interval = '1s'\n[webhook]\nurl = 'http://h'".to_owned(),
            Err("repeat_interval"),
        ),
        ("name = 'a'\n[alertmanager]".to_owned(), Err("urls")),
        (
            "name = 'a'\n[alertmanager]\nurls = ['http://x:1/', 'https://y:2/p/']".to_owned(),
            Ok("a-1 a-2"),
        ),
        ("name = 'a'\n[alertmanager]\nurls = ['http://x']\nuser = 'u'".to_owned(), Err("user")),
        (format!("name = 'a'\n[email]\n{mail}"), Ok("a")),
        (format!("name = 'a'\n[email]\n{mail}\nuser = 'u'"), Err("both")),
        (format!("name = 'a'\n[email]\n{mail}\nuser = 'u'\npassword_file = '{hush}'"), Ok("a")),
        (
            format!("name = 'a'\n[email]\n{mail}\ntls='none'\nuser='u'\npassword_file='{hush}'"),
            Err("plain text"),
        ),
        (
            format!("name = 'a'\n[email]\n{mail}\nuser = 'u'\npassword_file = '/absent'"),
            Err("cannot read"),
        ),
        (
            format!("name = 'a'\n[email]\n{mail}\nuser = 'u'\npassword_env = 'ABSENT_VARIABLE'"),
            Err("no variable"),
        ),
        (format!("name = 'a'\n[email]\n{mail}\ntls = 'yes'"), Err("`starttls`")),
        ("name = 'a'\n[email]\nserver = 'mail'".to_owned(), Err("HOST:PORT")),
        (
            "name = 'a'\n[email]\nserver = 'm:25'\nfrom = \"a@b.c\\nBcc: x@y.z\"\nto = ['a@b.c']"
                .to_owned(),
            Err("no address"),
        ),
        ("name = 'a'\n[email]\nserver = 'm:25'\nfrom = 'a@b.c'".to_owned(), Err("to: give")),
        (format!("name = 'a'\n[slack]\nurl_file = '{hook}'"), Ok("a")),
        (format!("name = 'a'\n[teams]\nurl_file = '{hook}'"), Ok("a")),
        ("name = 'a'\n[slack]".to_owned(), Err("slack.url: the address is missing")),
        ("name = 'a'\n[slack]\nurl = 'https://h/x'".to_owned(), Err("unknown field")),
        ("name = 'a'\n[webhook]\nurl = 'http://h'\npasword = 'x'".to_owned(), Err("unknown field")),
        (format!("name = 'a'\n[email]\n{mail}\ntoken_file = '{key}'"), Err("unknown field")),
        (
            format!("name = 'a'\n[ntfy]\ntopic = 'ops'\nuser = 'u'\ntoken_file = '{key}'"),
            Err("user: give `user`"),
        ),
        (format!("name = 'a'\n[ntfy]\ntopic = 'ops'\ntoken_file = '{key}'"), Ok("a")),
        (format!("name = 'a'\n[pagerduty]\nkey_file = '{key}'\nseverity = 'warning'"), Ok("a")),
        (format!("name = 'a'\n[pagerduty]\nkey_file = '{hush}'"), Err("32 letters and digits")),
        ("name = 'a'\n[pagerduty]".to_owned(), Err("key of an integration is missing")),
        (
            format!("name = 'a'\n[pagerduty]\nkey_file = '{key}'\nseverity = 'odd'"),
            Err("`critical`"),
        ),
        (format!("name = 'a'\n[opsgenie]\nkey_file = '{key}'"), Ok("a")),
        (format!("name = 'a'\n[opsgenie]\nkey_file = '{key}'\nurl = 'x'"), Err("no address")),
        ("name = 'a'\n[ntfy]\ntopic = 'ops'".to_owned(), Ok("a")),
        ("name = 'a'\n[ntfy]\ntopic = 'ops/x'".to_owned(), Err("topic: write 1 to 64")),
        ("name = 'a'\n[ntfy]\ntopic = 'ops'\npriority = 6".to_owned(), Err("from 1")),
        (
            format!("name = 'a'\n[matrix]\nurl = 'https://m'\nroom = '!r:m'\ntoken_file = '{key}'"),
            Ok("a"),
        ),
        (
            format!("name = 'a'\n[matrix]\nurl = 'https://m'\nroom = '#r:m'\ntoken_file = '{key}'"),
            Err("begins with '!'"),
        ),
        ("name = 'a'\n[matrix]\nurl = 'https://m'\nroom = '!r:m'".to_owned(), Err("token")),
        ("name = 'a'\ntext = '{{ $x }}'\n[ntfy]\ntopic = 'x'".to_owned(), Err("text: ")),
        (
            "name = 'a'\nsubject = 'x'\n[webhook]\nurl = 'http://h'".to_owned(),
            Err("subject: `alertmanager` and `webhook`"),
        ),
        ("name = 'a'\n[ntfy]\ntopic = 'x'\n[slack]".to_owned(), Err("exactly one")),
    ] {
        let found = check(&text);
        match expected {
            Ok(names) => {
                let found = found.unwrap();
                let found: Vec<&str> = found.iter().map(|n| n.policy.name.as_str()).collect();
                assert_eq!(found.join(" "), names, "{text}");
            }
            Err(part) => {
                let error = found.expect_err(&text).to_string();
                assert!(error.contains(part), "{text}: {error}");
                assert!(!error.contains("hush\n") && !error.contains("u:p"), "{error}");
            }
        }
    }
    assert!(toml::from_str::<NotifierConfig>("name = 'a'\nurl = 'x'").is_err());
    let twice = NotifierConfig { name: "a".to_owned(), ..NotifierConfig::default() };
    assert!(check_names(&[twice.clone(), twice]).unwrap_err().to_string().contains("rename"));
}

#[test]
fn people_are_told_again_less_often_than_alertmanager() {
    let repeat = |text: &str| check(text).unwrap()[0].policy.repeat_interval.as_secs();
    assert_eq!(repeat("name = 'a'\n[alertmanager]\nurls = ['http://x']"), 60);
    assert_eq!(repeat("name = 'a'\n[webhook]\nurl = 'http://x'"), 4 * 3600);
}

#[test]
fn over_the_api_secrets_are_given_and_no_file_is_read() {
    use cluster::engines::Secret;
    let given: BTreeMap<String, Secret> =
        [("url".to_owned(), Secret::new("https://h/hook"))].into();
    let check = |text: &str| {
        let config: NotifierConfig = toml::from_str(text).unwrap();
        let checked = config.check_with("", Secrets::Given(&given), Reach::Outside);
        checked.map(|options| options[0].kind()).map_err(|error| error.to_string())
    };
    assert_eq!(check("name = 'a'\n[slack]"), Ok("slack"));
    for text in [
        "name = 'a'\n[slack]\nurl_file = '/etc/passwd'",
        "name = 'a'\n[teams]\nurl_env = 'PATH'",
        "name = 'a'\n[matrix]\nurl = 'https://m'\nroom = '!r:m'\ntoken_file = '/etc/passwd'",
        "name = 'a'\n[webhook]\nuser = 'u'\npassword_env = 'HOME'",
    ] {
        let error = check(text).unwrap_err();
        assert!(error.contains("no file and no variable is read"), "{error}");
    }
    let error = check("name = 'a'\nca = '/etc/passwd'\n[slack]").unwrap_err();
    assert!(error.contains("configuration file"), "{error}");
}

#[test]
fn secrets_belong_to_a_server_and_a_user() {
    let of = |text: &str| toml::from_str::<NotifierConfig>(text).unwrap().destination();
    let matrix = "name = 'a'\n[matrix]\nurl = 'https://m'\nroom = '!r:m'";
    assert_eq!(of(matrix), of(&matrix.replace("!r:m", "!s:m").replace("'a'", "'b'")));
    for (before, after) in [
        (matrix, matrix.replace("https://m", "https://evil")),
        ("[slack]", "[teams]".to_owned()),
        ("[ntfy]\ntopic = 'x'", "[ntfy]\ntopic = 'x'\nurl = 'https://evil'".to_owned()),
        ("[webhook]\nurl = 'https://a'", "[webhook]\nurl = 'https://b'".to_owned()),
        ("[pagerduty]", "[pagerduty]\nurl = 'https://evil'".to_owned()),
        ("[opsgenie]", "[opsgenie]\nurl = 'https://evil'".to_owned()),
        ("[alertmanager]\nurls = ['a']", "[alertmanager]\nurls = ['b']".to_owned()),
        ("[email]\nserver = 'a:1'", "[email]\nserver = 'b:1'".to_owned()),
        ("[email]\nserver = 'a:1'", "[email]\nserver = 'a:1'\ntls = 'none'".to_owned()),
    ] {
        assert_ne!(of(before), of(&after), "{after}");
    }
}
