module testbed/etcd

go 1.26

require (
	go.etcd.io/etcd/etcdctl/v3 v3.6.14
	go.etcd.io/etcd/etcdutl/v3 v3.6.14
	go.etcd.io/etcd/server/v3 v3.6.14
)
