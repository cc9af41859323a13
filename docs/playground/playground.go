// Package playground is a page that shows what a policy does. See the README beside it.
package playground

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry/docs/playground/model"
)

var (
	//go:embed site
	site embed.FS
	//go:embed library
	library embed.FS
)

const (
	wasmPackage = "github.com/seed-5ff3c98e/retry/docs/playground/wasm"
	// libraryFile is how the page asks the library.
	libraryFile = "library.js"
)

// Page returns the files of the page, but for library.js.
func Page() fs.FS {
	page, err := fs.Sub(site, "site")
	if err != nil {
		panic(err) // the name is a constant
	}
	return page
}

// Build writes the page into a folder, with the library as WebAssembly. It needs the go
// command, in a folder of a module that has this one. The page needs no server: it can be
// opened from the file system.
func Build(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := fs.WalkDir(Page(), ".", func(path string, d fs.DirEntry, err error) error {
		switch target := filepath.Join(dir, path); {
		case err != nil:
			return err
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		default:
			text, err := fs.ReadFile(Page(), path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, text, 0o644)
		}
	})
	if err != nil {
		return err
	}
	script, err := wasmLibrary(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, libraryFile), script, 0o644)
}

// wasmLibrary returns a library.js with the library in it. Everything is in this one
// script, because a page in the file system may fetch nothing else.
func wasmLibrary(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "playground")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "retry.wasm")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, wasmPackage)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	wasm, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	// What starts the library belongs to the compiler.
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	start, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, err
	}
	connect, err := library.ReadFile("library/wasm.js")
	if err != nil {
		return nil, err
	}
	worker, err := library.ReadFile("library/worker.js")
	if err != nil {
		return nil, err
	}
	source, err := json.Marshal(string(start) + string(worker))
	if err != nil {
		return nil, err
	}
	small, err := compressed(wasm)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%s\nconst retryWorker = %s;\nconst retryWasm = %q;\n%s",
		start, source, base64.StdEncoding.EncodeToString(small), connect), nil
}

// Files serves a folder that Build has written. It sends library.js compressed, which is
// most of the page.
func Files(dir string) http.Handler {
	files := http.FileServerFS(os.DirFS(dir))
	small := sync.OnceValues(func() ([]byte, error) {
		script, err := os.ReadFile(filepath.Join(dir, libraryFile))
		if err != nil {
			return nil, err
		}
		return compressed(script)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		script, err := small()
		if err != nil || r.URL.Path != "/"+libraryFile || !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			files.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(script)
	})
}

func compressed(text []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Server returns a server of a page of Handler or Files that listens at address. It is called by an
// IP address, as localhost, or by the host of that address: a page of another site may have a name
// that leads here, and could ask it otherwise. A request must arrive within 30 seconds, and its
// answer within 2 minutes.
func Server(page http.Handler, address string) *http.Server {
	host, _, _ := net.SplitHostPort(address)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := (&url.URL{Host: r.Host}).Hostname()
		if _, err := netip.ParseAddr(name); err != nil && name != "localhost" && name != host {
			problem := fmt.Sprintf("Host: %.100q: must be an IP address, localhost, or the host of --listen", r.Host)
			http.Error(w, problem, http.StatusMisdirectedRequest)
			return
		}
		page.ServeHTTP(w, r)
	})
	return &http.Server{
		Handler: handler, MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: time.Minute,
	}
}

// largestQuestion is one of the page, which asks about a policy.
const largestQuestion = 1 << 20

// Handler serves the page without WebAssembly: it answers for the library itself. Pages
// of other sites cannot ask it.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(Page()))
	mux.HandleFunc("GET /"+libraryFile, func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, library, "library/native.js")
	})
	mux.HandleFunc("POST /ask", func(w http.ResponseWriter, r *http.Request) {
		question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestQuestion))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(model.Ask(question))
	})
	return http.NewCrossOriginProtection().Handler(mux)
}
