module testbed/coredns

go 1.26

require github.com/coredns/coredns v1.13.1
