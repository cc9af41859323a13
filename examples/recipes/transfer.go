package recipes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var errNoRange = errors.New("the server does not resume")

// Upload sends size bytes of file in parts, each with attempts of its own. It goes on at offset, and returns
// where to go on after an error.
func Upload(ctx context.Context, client *http.Client, url string, file io.ReaderAt, offset, size, part int64) (int64, error) {
	for offset < size {
		data := make([]byte, min(part, size-offset))
		if _, err := file.ReadAt(data, offset); err != nil && !errors.Is(err, io.EOF) {
			return offset, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(data))
		if err != nil {
			return offset, err
		}
		end := offset + int64(len(data))
		req.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, end-1, size))
		if err := retryhttp.Do(client, nil, req, func(*http.Response) error { return nil }); err != nil {
			return offset, err
		}
		offset = end
	}
	return offset, nil
}

// Download writes url to w. An attempt goes on where the one before has ended, if the ETag is the same.
func Download(ctx context.Context, policy *retry.Policy, url string, w io.Writer) error {
	var have int64
	var etag string
	client := &http.Client{Transport: &retryhttp.Transport{Policy: policy, Prepare: func(r *http.Request) error {
		if have > 0 {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
			r.Header.Set("If-Range", etag)
		}
		return nil
	}}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return retryhttp.Do(client, nil, req, func(resp *http.Response) error {
		if have > 0 && (etag == "" || resp.StatusCode != http.StatusPartialContent) {
			return retry.MarkFinal(errNoRange)
		}
		etag = resp.Header.Get("ETag")
		n, err := io.Copy(w, resp.Body)
		if have += n; n > 0 {
			err = retry.MarkProgress(err) // the attempts are counted from here on
		}
		return err
	})
}
