//! Responses in gzip, for clients that accept it.
//!
//! - Each chunk of a response is flushed: a line of a tail, or of a query that still runs, is sent
//!   when it would be sent without gzip.
//! - Text is compressed: the media types in `COMPRESSIBLE`. Left out are short responses, files of
//!   the page (compressed when the binary was built), and exports, where the processor would be
//!   slower than the network.
//! - Only gzip: browsers offer brotli and zstd only over TLS, and a proxy in front, which usually
//!   does the TLS, has a compression of its own.
//! - The length of a compressed response reveals something about its content. A foreign web page
//!   that could make our page's browser send requests and watch the length is refused by `guard`;
//!   in addition, a response is not compressed if the browser marks its request as coming from
//!   another site.

use std::io::{self, Write};

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio_stream::StreamExt;

/// Shorter responses fit into one packet anyway.
const BYTES_MIN: u64 = 1024;
/// Bytes that are compressed before other tasks of the thread get their turn: about half a
/// millisecond.
const PIECE_BYTES: usize = 64 << 10;
/// Media types that are worth compressing.
const COMPRESSIBLE: [&str; 4] =
    ["application/json", "application/stream+json", "application/x-ndjson", "text/"];
/// The call whose responses are files to keep.
const EXPORTS: &str = "/api/v1/export";

/// The middleware around every route.
pub async fn answers(request: Request, next: Next) -> Response {
    let wanted = request.method() != Method::HEAD
        && request.uri().path() != EXPORTS
        && is_taken(request.headers())
        && is_own_site(request.headers());
    let response = next.run(request).await;
    match wanted && shrinks(&response) {
        true => compressed(response),
        false => response,
    }
}

/// Whether the client accepts gzip.
pub fn is_taken(headers: &HeaderMap) -> bool {
    let mut named = None;
    let mut any = false;
    let offers = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    for offer in offers.flat_map(|value| value.split(',')) {
        let mut parts = offer.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        let takes = weight.is_none_or(|weight| weight.trim().parse().is_ok_and(|q: f32| q > 0.0));
        if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") {
            named = Some(takes);
        } else if coding == "*" {
            any = takes;
        }
    }
    named.unwrap_or(any)
}

/// False if the browser says that the page of another site sent the request. Programs send no such
/// header.
fn is_own_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    matches!(site, None | Some(b"same-origin" | b"none"))
}

fn shrinks(response: &Response) -> bool {
    let headers = response.headers();
    let media_type = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let has_body = !response.status().is_informational()
        && !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    has_body
        && !headers.contains_key(CONTENT_ENCODING)
        && COMPRESSIBLE.iter().any(|known| media_type.starts_with(known.as_bytes()))
        && response.body().size_hint().exact().is_none_or(|bytes| bytes >= BYTES_MIN)
}

fn compressed(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    let gzip = Gzip {
        body: body.into_data_stream(),
        // The fastest level: half of the saving of the slowest, in a tenth of the time.
        encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
        rest: Bytes::new(),
    };
    let pieces = futures_util::stream::try_unfold(gzip, |mut gzip| async move {
        let piece = gzip.next().await?;
        Ok::<_, axum::Error>(piece.map(|piece| (piece, gzip)))
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

/// A response that is being compressed.
struct Gzip {
    body: BodyDataStream,
    /// `None` once the end is written.
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// The part of the last chunk that is not compressed yet.
    rest: Bytes,
}

impl Gzip {
    /// The next bytes to send; `None` behind the last. After an error of the response the gzip
    /// stream has no end, so that a response that broke off does not look complete.
    async fn next(&mut self) -> Result<Option<Bytes>, axum::Error> {
        loop {
            let Some(encoder) = &mut self.encoder else { return Ok(None) };
            if self.rest.is_empty() {
                match self.body.next().await.transpose()? {
                    Some(piece) => self.rest = piece,
                    None => {
                        let encoder = self.encoder.take().expect("it is there above");
                        return Ok(Some(encoder.finish().map_err(axum::Error::new)?.into()));
                    }
                }
                continue;
            }
            let piece = self.rest.split_to(self.rest.len().min(PIECE_BYTES));
            let sent = push(encoder, &piece, self.rest.is_empty()).map_err(axum::Error::new)?;
            match sent.is_empty() {
                true => tokio::task::yield_now().await,
                false => return Ok(Some(sent.into())),
            }
        }
    }
}

/// Compresses a chunk; with `flush`, everything so far can be decompressed from the returned bytes.
fn push(encoder: &mut GzEncoder<Vec<u8>>, piece: &[u8], flush: bool) -> io::Result<Vec<u8>> {
    encoder.write_all(piece)?;
    if flush {
        encoder.flush()?;
    }
    Ok(std::mem::take(encoder.get_mut()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::MultiGzDecoder;
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::ReceiverStream;

    use super::*;

    #[test]
    fn which_clients_accept_gzip() {
        let takes = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, text.parse().unwrap());
            is_taken(&headers)
        };
        for text in ["gzip", "GZIP", "deflate, gzip;q=0.5", "br, x-gzip", "*", "gzip;q=1, *;q=0"] {
            assert!(takes(text), "{text}");
        }
        for text in ["", "identity", "br", "gzip;q=0", "gzip; q=0.0", "*;q=0", "*, gzip;q=0"] {
            assert!(!takes(text), "{text}");
        }
        assert!(!is_taken(&HeaderMap::new()));
    }

    fn answer(media_type: &'static str, body: Body) -> Response {
        Response::builder().header(CONTENT_TYPE, media_type).body(body).unwrap()
    }

    #[test]
    fn what_is_compressed() {
        let long = || Body::from(vec![b'a'; 1024]);
        let check = |response: Response, expected: bool| {
            assert_eq!(shrinks(&response), expected, "{response:?}");
        };
        check(answer("application/json", long()), true);
        check(answer("text/plain; charset=utf-8", long()), true);
        check(answer("application/json", Body::from(vec![b'a'; 1023])), false);
        check(answer("application/octet-stream", long()), false);
        check(answer("application/vnd.apache.parquet", long()), false);
        let mut encoded = answer("text/css", long());
        encoded.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        check(encoded, false);
        let mut unchanged = answer("text/css", Body::from_stream(tokio_stream::empty::<Piece>()));
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        check(unchanged, false);
    }

    type Piece = Result<Bytes, io::Error>;

    /// Each line can be read as soon as it is written, whatever follows.
    #[tokio::test]
    async fn lines_come_one_by_one() {
        let (lines, body) = mpsc::channel::<Piece>(4);
        let body = Body::from_stream(ReceiverStream::new(body));
        let mut body =
            compressed(answer("application/stream+json", body)).into_body().into_data_stream();
        let (mut got, mut expected) = (Vec::new(), Vec::new());
        for n in 0..100 {
            let line = format!("{{\"_msg\":\"line {n}\"}}\n");
            expected.extend_from_slice(line.as_bytes());
            lines.send(Ok(line.into())).await.unwrap();
            got.extend_from_slice(&body.next().await.unwrap().unwrap());
            let mut read = vec![0; expected.len()];
            MultiGzDecoder::new(got.as_slice()).read_exact(&mut read).unwrap();
            assert_eq!(read, expected);
        }
        drop(lines);
        while let Some(piece) = body.next().await {
            got.extend_from_slice(&piece.unwrap());
        }
        let mut read = Vec::new();
        MultiGzDecoder::new(got.as_slice()).read_to_end(&mut read).unwrap();
        assert_eq!(read, expected);
    }

    #[tokio::test]
    async fn large_pieces_stay_whole_and_errors_break_off() {
        let large: Vec<u8> =
            (0..1_000_000u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).collect();
        for good in [true, false] {
            let end = (!good).then(|| Err(io::Error::other("the disk failed")));
            let pieces = [Ok(Bytes::from(large.clone())), Ok(Bytes::new())].into_iter().chain(end);
            let body = Body::from_stream(tokio_stream::iter(pieces.collect::<Vec<Piece>>()));
            let answer = compressed(answer("text/plain", body));
            assert_eq!(answer.headers()[CONTENT_ENCODING], "gzip");
            let mut body = answer.into_body().into_data_stream();
            let mut got = Vec::new();
            let mut failed = false;
            while let Some(piece) = body.next().await {
                match piece {
                    Ok(piece) => got.extend_from_slice(&piece),
                    Err(_) => failed = true,
                }
            }
            assert_eq!(failed, !good);
            let mut read = Vec::new();
            let ended = MultiGzDecoder::new(got.as_slice()).read_to_end(&mut read).is_ok();
            assert_eq!(ended, good, "a response that broke off has no end");
            assert!(read == large);
        }
    }
}
