{{- /* A section of a page is an entry: its heading, and the text up to the next one. */ -}}
{{- $entries := slice -}}
{{- range site.Pages -}}
  {{- $page := . -}}
  {{- $title := partial "title.html" . -}}
  {{- range $i, $part := split .Content "<h" -}}
    {{- $id := "" -}}
    {{- with findRESubmatch `^[1-6] id="([^"]*)"` $part 1 }}{{ $id = index (index . 0) 1 }}{{ end -}}
    {{- $heading := $title -}}
    {{- with findRESubmatch `^[1-6][^>]*>((?s).*?)</h` (print "" $part) 1 }}{{ $heading = index (index . 0) 1 | plainify | htmlUnescape }}{{ end -}}
    {{- $text := print (cond (eq $i 0) "" "<h") $part | plainify | htmlUnescape -}}
    {{- if or $id (and (eq $i 0) (strings.TrimSpace $text)) -}}
      {{- $url := strings.TrimPrefix "/" $page.RelPermalink -}}
      {{- if eq $url "" }}{{ $url = "index.html" }}{{ end -}}
      {{- if strings.HasSuffix $url "/" }}{{ $url = print $url "index.html" }}{{ end -}}
      {{- $entries = $entries | append (dict "id" (len $entries) "page" $title "heading" $heading "url" (print $url (cond (ne $id "") (print "#" $id) "")) "text" $text) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
const searchIndex = {{ $entries | jsonify }};
