// Site looks for links of a static site that lead nowhere:
//
//	go run ./site FOLDER
//
// Its tests with the tag site look at the pages that `make site` has built.
package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strings"

	"golang.org/x/net/html"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site FOLDER")
		os.Exit(2)
	}
	faults, err := broken(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	for _, fault := range faults {
		fmt.Println(fault)
	}
	if len(faults) > 0 {
		os.Exit(1)
	}
}

// broken returns the links of all pages in a folder that lead to no file in it, or to no
// element of a page. Links to other sites are left alone.
func broken(site fs.FS) ([]string, error) {
	pages := map[string]*page{}
	err := fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		node, err := html.Parse(strings.NewReader(string(text)))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		pages[name] = read(node)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var faults []string
	for name, p := range pages {
		for _, link := range p.links {
			if !leads(site, pages, name, link) {
				faults = append(faults, name+": leads nowhere: "+link)
			}
		}
	}
	return faults, nil
}

func leads(site fs.FS, pages map[string]*page, from, link string) bool {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return false
	case u.IsAbs():
		return true
	case strings.HasPrefix(link, "/"):
		return false // not in the file system
	}
	to := from
	if u.Path != "" {
		to = path.Join(path.Dir(from), u.Path)
	}
	if info, err := fs.Stat(site, to); err != nil || info.IsDir() {
		return false // a server would show the index of a folder, the file system does not
	}
	p := pages[to]
	return u.Fragment == "" || p == nil || p.ids[u.Fragment]
}

// page is what a page leads to, and what in it can be led to.
type page struct {
	links []string
	ids   map[string]bool
}

func read(root *html.Node) *page {
	p := &page{ids: map[string]bool{}}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				p.ids[a.Val] = true
			case "href", "src":
				p.links = append(p.links, a.Val)
			case "srcset":
				address, _, _ := strings.Cut(strings.TrimSpace(a.Val), " ")
				p.links = append(p.links, address)
			}
		}
	}
	return p
}
