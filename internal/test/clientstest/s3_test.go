package clientstest_test

import "net/http"

// s3Object answers with an object.
func s3Object(content string) step {
	return answer(200, "text/plain", content,
		"Etag", `"0123456789abcdef0123456789abcdef"`, "Last-Modified", "Fri, 20 Nov 2026 10:00:00 GMT")
}

var s3Upload = answer(200, "application/xml",
	`<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>key</Key><UploadId>hello</UploadId></InitiateMultipartUploadResult>`)

func s3Failed(status int, keysAndValues ...string) step {
	code := map[int]string{
		http.StatusForbidden:           "AccessDenied",
		http.StatusNotFound:            "NoSuchKey",
		http.StatusTooManyRequests:     "TooManyRequests",
		http.StatusInternalServerError: "InternalError",
		http.StatusServiceUnavailable:  "SlowDown",
	}[status]
	if code == "" {
		code = "Unexpected"
	}
	return answer(status, "application/xml",
		`<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+`</Code><Message>no luck</Message></Error>`, keysAndValues...)
}
