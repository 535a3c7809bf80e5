//! Bodies that a server must not choke on.

use super::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn post(media: &str, body: String) -> (u16, Value) {
    let server = cluster();
    let request = http::Request::post(MAPS)
        .header("content-type", media)
        .body(http_body_util::Full::new(bytes::Bytes::from(body)))
        .unwrap();
    let response = server.service("test").oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn aliases_that_stand_for_a_flood_are_refused_and_a_few_are_read() {
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let few = format!("{head}data: {{a: &a one, b: *a}}\n");
    let (code, answer) = post("application/yaml", few).await;
    assert_eq!((code, &answer["data"]["b"]), (201, &json!("one")));
    let mut flood = format!("{head}data:\n  a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
        flood.push_str(&format!("  a{level}: &a{level} [{aliases}]\n"));
    }
    let (code, answer) = post("application/yaml", flood).await;
    assert_eq!(code, 400, "{answer}");
}

#[tokio::test]
async fn protobuf_is_refused_in_words_that_do_not_offer_it() {
    let (code, answer) = post("application/vnd.kubernetes.protobuf", "k8s\0".into()).await;
    let message = answer["message"].as_str().unwrap();
    assert_eq!(code, 415);
    assert!(message.contains("does not read"), "{message}");
    assert!(message.contains("kubectl apply"), "{message}");
}

#[tokio::test]
async fn a_body_above_three_mebibytes_and_data_above_one_are_refused() {
    let map = |size: usize| json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(size)}});
    let mebibyte = 1024 * 1024;
    let table = [
        (mebibyte, 201, ""),
        (
            mebibyte + 1,
            422,
            "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes",
        ),
        (
            3 * mebibyte,
            413,
            "Request entity too large: limit is 3145728",
        ),
    ];
    for (size, expected, words) in table {
        let (code, answer) = post("application/json", map(size).to_string()).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!((code, message), (expected, words));
    }
}
