package checks

import (
	"go/ast"
	"go/types"
)

// attempt is code that is run again when it fails.
type attempt struct {
	body *ast.BlockStmt // of the loop, or of the function given to a library
	in   *ast.BlockStmt // the body of the function with the loop or the call
	decl *ast.FuncDecl  // the declaration it is in, or nil
	sig  *types.Signature

	// A loop by hand.
	loop  ast.Stmt
	kind  kind
	tries []*try // that make the loop what it is; none if it only waits
	waits []wait

	// A function given to a library.
	lib  *library
	call *ast.CallExpr // of the library
	lit  *ast.FuncLit
}

// findAttempts finds the attempts in a file.
func (s *source) findAttempts(file *ast.File) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			ast.Inspect(decl, func(n ast.Node) bool {
				if lit, ok := n.(*ast.FuncLit); ok {
					s.inBody(lit.Body, nil, s.signature(lit))
					return false
				}
				return true
			})
			continue
		}
		if f.Body != nil {
			s.inBody(f.Body, f, s.signature(f))
		}
	}
}

func (s *source) signature(n ast.Node) *types.Signature {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if f, ok := s.pass.TypesInfo.Defs[n.Name].(*types.Func); ok {
			return f.Signature()
		}
	case *ast.FuncLit:
		if sig, ok := s.pass.TypesInfo.TypeOf(n).(*types.Signature); ok {
			return sig
		}
	}
	return types.NewSignatureType(nil, nil, nil, nil, nil, false)
}

// inBody finds the attempts in the body of a function, and in the functions in it.
func (s *source) inBody(body *ast.BlockStmt, decl *ast.FuncDecl, sig *types.Signature) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			s.inBody(n.Body, decl, s.signature(n))
			return false
		case *ast.ForStmt:
			s.addLoop(&attempt{loop: n, body: n.Body, in: body, decl: decl, sig: sig})
		case *ast.RangeStmt:
			s.addLoop(&attempt{loop: n, body: n.Body, in: body, decl: decl, sig: sig})
		case *ast.CallExpr:
			if lib, lit := s.retried(n, body); lib != nil {
				s.attempts = append(s.attempts, &attempt{
					lib: lib, call: n, lit: lit, body: lit.Body, in: body, decl: decl, sig: sig,
				})
			}
		}
		return true
	})
}
