// Package agentpb is the generated form of agent.proto. Package agent turns it
// into the types that the rest of the program knows; nothing else uses it.
//
// Generating needs protoc, protoc-gen-go and protoc-gen-go-grpc on PATH; the
// result is committed, so building does not.
package agentpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative agent.proto
