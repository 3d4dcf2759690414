//! Notifiers as the configuration writes them.

use super::*;

fn check(text: &str) -> Result<Vec<NotifierOptions>, ConfigError> {
    toml::from_str::<NotifierConfig>(text).unwrap().check("http://logs")
}

#[test]
fn notifiers_are_checked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "hush\n").unwrap();
    let hush = file.path().display();
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
