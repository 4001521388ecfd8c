//go:build tools

// Package tools keeps the program that is built from this module among its requirements.
package tools

import _ "github.com/operator-framework/api/cmd/operator-verify"
