//! The requests that a producer needs, each in one fixed version that all brokers from Kafka 2.4 to
//! 4 know, and their responses. These versions are older than the protocol's "flexible" encoding.

use super::wire::{Damaged, Reader, Writer};

/// A kind of request in the version that is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// The leaders of a topic's partitions.
    Metadata,
    /// Records for partitions. Version 8 names the records of a batch that were refused.
    Produce,
    /// The choice of a SASL mechanism.
    SaslHandshake,
    /// A step of SASL.
    SaslAuthenticate,
}

impl Api {
    /// The head of a request of this kind, without the length before it.
    pub fn head(self, correlation: i32) -> Writer {
        let (key, version) = match self {
            Api::Metadata => (3, 4),
            Api::Produce => (0, 8),
            Api::SaslHandshake => (17, 1),
            Api::SaslAuthenticate => (36, 0),
        };
        let mut head = Writer::default();
        head.i16(key).i16(version).i32(correlation).text("loginson");
        head
    }
}

/// Where the partitions of a topic are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Node, host and port.
    pub brokers: Vec<(i32, String, u16)>,
    /// The error of the topic, or 0.
    pub error: i16,
    /// The leader of each partition, in their order; `None` while there is none.
    pub leaders: Vec<Option<i32>>,
}

/// The body of a request for a topic's partitions, which creates the topic if brokers do that.
pub fn metadata_request(topic: &str) -> Vec<u8> {
    let mut body = Writer::default();
    body.length(1).text(topic).i8(1);
    body.0
}

/// The response to [`metadata_request`].
pub fn metadata(response: &[u8]) -> Result<Metadata, Damaged> {
    let mut reader = Reader(response);
    reader.i32()?;
    let brokers = reader.list(|reader| {
        let (node, host, port) = (reader.i32()?, reader.text()?, reader.i32()?);
        reader.text()?;
        Ok((node, host, u16::try_from(port).map_err(|_| Damaged)?))
    })?;
    reader.text()?;
    reader.i32()?;
    let topics = reader.list(|reader| {
        let error = reader.i16()?;
        reader.text()?;
        reader.i8()?;
        let partitions = reader.list(|reader| {
            let (error, index, leader) = (reader.i16()?, reader.i32()?, reader.i32()?);
            reader.list(Reader::i32)?;
            reader.list(Reader::i32)?;
            // 9: a replica is away, which does not concern the leader.
            Ok((index, Some(leader).filter(|leader| matches!(error, 0 | 9) && *leader >= 0)))
        })?;
        Ok((error, partitions))
    })?;
    let (error, mut partitions) = topics.into_iter().next().ok_or(Damaged)?;
    partitions.sort_by_key(|(index, _)| *index);
    let is_whole =
        partitions.iter().enumerate().all(|(n, (index, _))| usize::try_from(*index) == Ok(n));
    if !is_whole {
        return Err(Damaged);
    }
    let leaders = partitions.into_iter().map(|(_, leader)| leader).collect();
    Ok(Metadata { brokers, error, leaders })
}

/// The body of a request that is answered when all replicas in sync have the records.
pub fn produce_request(topic: &str, timeout_ms: i32, batches: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let bytes: usize = batches.iter().map(|(_, batch)| 8 + batch.len()).sum();
    let mut body = Writer(Vec::with_capacity(32 + topic.len() + bytes));
    // No transaction; acks = all.
    body.i16(-1).i16(-1).i32(timeout_ms).length(1).text(topic).length(batches.len());
    for (partition, batch) in batches {
        body.length(*partition).bytes(batch);
    }
    body.0
}

/// What became of the batch of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    /// The partition.
    pub partition: usize,
    /// The error, or 0.
    pub error: i16,
    /// The places in the batch of records that the broker refuses, and why.
    pub refused: Vec<(usize, String)>,
    /// What the broker says about the error.
    pub message: String,
}

/// The response to [`produce_request`].
pub fn produced(response: &[u8]) -> Result<Vec<Produced>, Damaged> {
    let mut reader = Reader(response);
    let topics = reader.list(|reader| {
        reader.text()?;
        reader.list(|reader| {
            let partition = usize::try_from(reader.i32()?).map_err(|_| Damaged)?;
            let error = reader.i16()?;
            // The offset of the batch, its time in the log, and the start of the log.
            reader.i64()?;
            reader.i64()?;
            reader.i64()?;
            let refused = reader.list(|reader| {
                let place = usize::try_from(reader.i32()?).map_err(|_| Damaged)?;
                Ok((place, reader.text()?))
            })?;
            Ok(Produced { partition, error, refused, message: reader.text()? })
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// The body that chooses a SASL mechanism.
pub fn handshake_request(mechanism: &str) -> Vec<u8> {
    let mut body = Writer::default();
    body.text(mechanism);
    body.0
}

/// The error of a handshake, and the mechanisms that the broker knows.
pub fn handshake(response: &[u8]) -> Result<(i16, Vec<String>), Damaged> {
    let mut reader = Reader(response);
    Ok((reader.i16()?, reader.list(Reader::text)?))
}

/// The body of a step of SASL.
pub fn authenticate_request(message: &[u8]) -> Vec<u8> {
    let mut body = Writer::default();
    body.bytes(message);
    body.0
}

/// The error of a step, what the broker says about it, and the broker's message.
pub fn authenticate(response: &[u8]) -> Result<(i16, String, Vec<u8>), Damaged> {
    let mut reader = Reader(response);
    Ok((reader.i16()?, reader.text()?, reader.bytes()?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn requests_byte_by_byte() {
        assert_eq!(hex(&Api::Produce.head(7).0), "000000080000000700086c6f67696e736f6e");
        assert_eq!(hex(&metadata_request("t")), "0000000100017401");
        assert_eq!(
            hex(&produce_request("t", 30_000, &[(2, vec![0xab, 0xcd])])),
            "ffffffff00007530000000010001740000000100000002000000 02abcd".replace(' ', "")
        );
        assert_eq!(hex(&handshake_request("PLAIN")), "0005504c41494e");
        assert_eq!(hex(&authenticate_request(b"\0u\0p")), "0000000400750070");
    }

    #[test]
    fn responses() {
        let mut body = Writer::default();
        body.i32(0).length(1).i32(5).text("host").i32(9092).i16(-1).i16(-1).i32(5);
        body.length(1).i16(0).text("t").i8(0).length(2);
        body.i16(5).i32(1).i32(-1).length(0).length(0);
        body.i16(0).i32(0).i32(5).length(1).i32(5).length(1).i32(5);
        let expected = Metadata {
            brokers: vec![(5, "host".to_owned(), 9092)],
            error: 0,
            leaders: vec![Some(5), None],
        };
        assert_eq!(metadata(&body.0), Ok(expected));
        for cut in 0..body.0.len() {
            assert_eq!(metadata(&body.0[..cut]), Err(Damaged), "{cut}");
        }
        let mut body = Writer::default();
        body.length(1).text("t").length(1).i32(3).i16(87).i64(-1).i64(-1).i64(-1);
        body.length(1).i32(4).text("no key").text("refused").i32(0);
        let expected = Produced {
            partition: 3,
            error: 87,
            refused: vec![(4, "no key".to_owned())],
            message: "refused".to_owned(),
        };
        assert_eq!(produced(&body.0), Ok(vec![expected]));
    }
}
