//! Databases in MaxMind's format (GeoIP, ASN): what is known about the network of an address.

use std::net::IpAddr;

use maxminddb::{PathElement, Reader};
use query::source::Table;
use serde_json::Value;

/// Fields of the databases of places and of networks, where the configuration names none.
const PLACES: [&str; 7] = [
    "continent.code",
    "country.iso_code",
    "country.names.en",
    "city.names.en",
    "location.latitude",
    "location.longitude",
    "location.time_zone",
];
const NETWORKS: [&str; 2] = ["autonomous_system_number", "autonomous_system_organization"];
/// The name of the key.
const KEY: &str = "ip";

/// A database, as a table whose key is an address.
pub struct Mmdb {
    reader: Reader<Vec<u8>>,
    keys: Vec<String>,
    fields: Vec<String>,
    bytes: usize,
}

impl Mmdb {
    /// Reads a database; `fields` are paths such as `country.iso_code`.
    pub fn new(bytes: Vec<u8>, keys: &[String], fields: &[String]) -> Result<Mmdb, String> {
        let length = bytes.len();
        let reader = Reader::from_source(bytes)
            .map_err(|error| format!("it is no database in MaxMind's format: {error}"))?;
        let keys = match keys {
            [] => vec![KEY.to_owned()],
            [one] => vec![one.clone()],
            _ => return Err("this kind of match needs one key".to_owned()),
        };
        let fields = match fields {
            [] => {
                let kind = &reader.metadata().database_type;
                let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
                match kind {
                    kind if kind.contains("ASN") || kind.contains("ISP") => known(&NETWORKS),
                    kind if kind.contains("City") => known(&PLACES),
                    kind if kind.contains("Country") => known(&PLACES[..3]),
                    kind => {
                        return Err(format!(
                            "it is of the kind '{kind}'; name the fields that are wanted, such as \
                             fields = [\"country.iso_code\"]"
                        ));
                    }
                }
            }
            fields => fields.to_vec(),
        };
        Ok(Mmdb { reader, keys, fields, bytes: length })
    }

    /// Memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

impl std::fmt::Debug for Mmdb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mmdb").field("fields", &self.fields).finish_non_exhaustive()
    }
}

impl Table for Mmdb {
    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn fields(&self) -> &[String] {
        &self.fields
    }

    fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8])) {
        let address = key.first().and_then(|text| str::from_utf8(text).ok());
        let address: Option<IpAddr> = address.and_then(|text| text.parse().ok());
        let Some(address) = address.map(|address| address.to_canonical()) else { return };
        // An address of version 6 in a database of version 4 is an error.
        let Ok(found) = self.reader.lookup(address) else { return };
        if !found.has_data() {
            return;
        }
        for (place, field) in self.fields.iter().enumerate() {
            let path: Vec<PathElement<'_>> = field.split('.').map(PathElement::Key).collect();
            match found.decode_path::<Value>(&path) {
                Ok(Some(Value::String(text))) => each(place, text.as_bytes()),
                Ok(Some(Value::Null) | None) | Err(_) => {}
                Ok(Some(value)) => each(place, value.to_string().as_bytes()),
            }
        }
    }
}

/// A database with one network, for tests: 0.0.0.0/1 is in Germany.
#[cfg(test)]
pub fn sample() -> Vec<u8> {
    let mut bytes = Vec::new();
    let text = |out: &mut Vec<u8>, text: &str| {
        // Lengths from 29 on are in a byte of their own.
        match text.len() {
            short @ 0..29 => out.push(0x40 | short as u8),
            long => out.extend([0x5d, (long - 29) as u8]),
        }
        out.extend(text.as_bytes());
    };
    bytes.extend([0, 0, 17, 0, 0, 1]);
    bytes.extend([0; 16]);
    bytes.push(0xe1);
    text(&mut bytes, "country");
    bytes.push(0xe1);
    text(&mut bytes, "iso_code");
    text(&mut bytes, "DE");
    bytes.extend(b"\xab\xcd\xefMaxMind.com\xe9");
    for (name, value) in [
        ("binary_format_major_version", &[0xa1, 2][..]),
        ("binary_format_minor_version", &[0xa0]),
        ("build_epoch", &[0x01, 0x02, 1]),
        ("description", &[0xe0]),
        ("ip_version", &[0xa1, 4]),
        ("languages", &[0x00, 0x04]),
        ("node_count", &[0xc1, 1]),
        ("record_size", &[0xa1, 24]),
        ("database_type", b"\x4cTest-Country"),
    ] {
        text(&mut bytes, name);
        bytes.extend(value);
    }
    bytes
}
