# compose/haproxy.cfg as a cluster needs it: `sed -f compose/kubernetes/haproxy.sed compose/haproxy.cfg`.
# The cluster's name server, and the headless Service's whole name, since HAProxy knows no search domains.
s/^\( *\)nameserver dns 127\.0\.0\.11:53$/\1parse-resolv-conf/
s/ envs:8200$/ envs.gymwire.svc.cluster.local:8200/
