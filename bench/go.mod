module tips/bench

go 1.26.0

require (
	github.com/yalue/onnxruntime_go v1.27.0
	golang.org/x/sys v0.49.0
	tips v0.0.0
)

require google.golang.org/protobuf v1.36.12 // indirect

replace tips => ..
