//! Parsers of kernel text: text in, value out, nothing read. A parser never panics and never
//! returns a wrong number: what it does not understand is an error with the line.
