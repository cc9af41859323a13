package retryhttp

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/seed-5ff3c98e/retry"
)

// Download writes the content behind a GET to w, and returns how many bytes it has written. If the
// content breaks off, the next attempt goes on where it ended. The attempts, Timeout and MaxElapsed
// count anew from there, and the budget of a Transport does not. Client and policy are as in [Do].
//
// The server has to know ranges, and to give the content a strong ETag or a Last-Modified. Without
// these, what breaks off after its first byte is Final, and so is a content that has changed: w never
// gets parts of two versions. To go on with what an earlier call has written, set the headers Range,
// "bytes=1024-", and If-Range of req, to the ETag that a HEAD has told before the first call. Content
// is asked for without a compression, unless req has an Accept-Encoding. An error of w is Final.
func Download(client *http.Client, p *retry.Policy, req *http.Request, w io.Writer) (written int64, err error) {
	if req == nil || req.Method != http.MethodGet && req.Method != "" || req.URL == nil || w == nil {
		return 0, errors.New("retryhttp: Download needs the request of a GET, and a writer")
	}
	d := download{w: w, version: req.Header.Get("If-Range")}
	if from := req.Header.Get("Range"); from != "" {
		_, err := fmt.Sscanf(from, "bytes=%d-", &d.offset)
		if err != nil || d.offset < 0 || from != fmt.Sprintf("bytes=%d-", d.offset) {
			return 0, fmt.Errorf("retryhttp: Download: Range: %q: must be like bytes=1024-", from)
		}
		if d.offset > 0 && d.version == "" {
			return 0, errors.New("retryhttp: Download: a Range needs an If-Range, so that it is of the same version")
		}
	}
	begin := d.offset
	err = do(client, p, req, d.read, d.ask)
	return d.offset - begin, err
}

// download is what was written, and where to go on.
type download struct {
	w       io.Writer
	offset  int64
	version string // an ETag or a time; "" if nothing tells whether the content is the same
}

// ask sets the headers of a request.
func (d *download) ask(h http.Header) {
	if h["Accept-Encoding"] == nil {
		h.Set("Accept-Encoding", "identity") // the offset of what net/http decompresses would be another one
	}
	if d.offset > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", d.offset))
		h.Set("If-Range", d.version)
	}
}

var errAnotherVersion = errors.New("retryhttp: the content cannot be continued: it has changed, or the server knows no ranges")

func (d *download) read(resp *http.Response) error {
	var first, last, size int64 = 0, 0, -1
	within := resp.Header.Get("Content-Range")
	_, _ = fmt.Sscanf(within, "bytes %d-%d/%d", &first, &last, &size)
	switch part := resp.StatusCode == http.StatusPartialContent && first == d.offset; {
	case d.offset == 0 && !part && resp.StatusCode != http.StatusOK:
		return retry.MarkFinal(fmt.Errorf("retryhttp: Download: %d has not the content", resp.StatusCode))
	case d.offset == 0:
		d.version = resp.Header.Get("Last-Modified") // the version of an attempt that has written nothing is of no use
		if etag := resp.Header.Get("ETag"); !strings.HasPrefix(etag, "W/") {
			d.version = cmp.Or(etag, d.version)
		}
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && within == fmt.Sprintf("bytes */%d", d.offset) && d.same(resp):
		return nil // only the end was missing
	case !part || !d.same(resp):
		return retry.MarkFinal(errAnotherVersion)
	}
	n, err := io.Copy(finalWriter{d.w}, resp.Body)
	d.offset += n
	if err == nil && d.offset < size { // the server has sent less than it was asked for
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil && d.offset > 0 && d.version == "":
		return retry.MarkFinal(err)
	case n > 0:
		return retry.MarkProgress(err)
	default:
		return err
	}
}

// same reports whether a response is of the version that was begun with: some servers do not heed
// If-Range.
func (d *download) same(resp *http.Response) bool {
	name := "Last-Modified"
	if strings.HasPrefix(d.version, `"`) {
		name = "ETag"
	}
	version := resp.Header.Get(name)
	return version == "" || version == d.version
}

// finalWriter is a writer whose errors no other attempt can help.
type finalWriter struct{ io.Writer }

// Write implements io.Writer.
func (w finalWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	return n, retry.MarkFinal(err)
}
