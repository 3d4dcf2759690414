{{/* The name of all objects: that of the release. */}}
{{- define "loginson.name" -}}
{{- if contains "loginson" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-loginson" (.Release.Name | trunc 31 | trimSuffix "-") -}}
{{- end -}}
{{- end -}}

{{- define "loginson.labels" -}}
app.kubernetes.io/name: loginson
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{/* What selects pods: (dict "root" $ "part" "server"). */}}
{{- define "loginson.selector" -}}
app.kubernetes.io/name: loginson
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "loginson.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "loginson.scheme" -}}
{{- if .Values.secrets.tls.name }}https{{ else }}http{{ end -}}
{{- end -}}

{{- define "loginson.replicas" -}}
{{- if eq .Values.mode "single" }}1{{ else }}{{ .Values.replicas }}{{ end -}}
{{- end -}}

{{/* What a container may do: nothing but write to its volumes. */}}
{{- define "loginson.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The pod that runs as the user of the image. */}}
{{- define "loginson.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Probes ask the node itself; the name in Host is one that every server knows. */}}
{{- define "loginson.probes" -}}
startupProbe:
  httpGet: {path: /health, port: http, scheme: {{ include "loginson.scheme" . | upper }}, httpHeaders: [{name: Host, value: localhost}]}
  periodSeconds: 5
  failureThreshold: 720
livenessProbe:
  httpGet: {path: /health, port: http, scheme: {{ include "loginson.scheme" . | upper }}, httpHeaders: [{name: Host, value: localhost}]}
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /ready, port: http, scheme: {{ include "loginson.scheme" . | upper }}, httpHeaders: [{name: Host, value: localhost}]}
  periodSeconds: 10
  timeoutSeconds: 5
{{- end -}}

{{/* Addresses of the servers: (dict "root" $ "scheme" "http://" "port" 9514), as a list in JSON. */}}
{{- define "loginson.servers" -}}
{{- $name := include "loginson.name" .root -}}
{{- $found := list -}}
{{- range $i := until (int (include "loginson.replicas" .root)) -}}
{{- $found = append $found (printf "%s%s-%d.%s-servers.%s.svc:%d" $.scheme $name $i $name $.root.Release.Namespace (int $.port)) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* Names by which a server is called, as a list in JSON. */}}
{{- define "loginson.hosts" -}}
{{- $name := include "loginson.name" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $found := list -}}
{{- $services := list $name (printf "%s-query" $name) -}}
{{- range $i := until (int (include "loginson.replicas" .)) -}}
{{- $services = append $services (printf "%s-%d.%s-servers" $name $i $name) -}}
{{- end -}}
{{- range $services -}}
{{- $found = concat $found (list . (printf "%s.%s" . $namespace) (printf "%s.%s.svc" . $namespace) (printf "%s.%s.svc.cluster.local" . $namespace)) -}}
{{- end -}}
{{- $found = concat $found .Values.service.hosts -}}
{{- if and .Values.ingress.enabled .Values.ingress.host -}}
{{- $found = append $found .Values.ingress.host -}}
{{- end -}}
{{- toJson (uniq $found) -}}
{{- end -}}

{{/* Settings of the chart with those that are given: (dict "own" … "given" "TOML" "key" "settings"). */}}
{{- define "loginson.merged" -}}
{{- $given := fromToml .given -}}
{{- if hasKey $given "Error" -}}
{{- fail (printf "%s is no TOML: %s" .key (get $given "Error")) -}}
{{- end -}}
{{- toToml (mergeOverwrite .own $given) -}}
{{- end -}}

{{/* Settings of a server. */}}
{{- define "loginson.settings" -}}
{{- $settings := dict "data_dir" "/var/lib/loginson" "http_hosts" (include "loginson.hosts" . | fromJsonArray) -}}
{{- if .Values.secrets.tls.name -}}
{{- $_ := set $settings "http_tls" (dict "certificate" "/etc/loginson/secrets/tls/tls.crt" "key" "/etc/loginson/secrets/tls/tls.key") -}}
{{- end -}}
{{- if ne .Values.mode "cluster" -}}
{{- if .Values.secrets.node.name -}}
{{- $_ := set $settings "node_listen" "0.0.0.0:9515" -}}
{{- $_ := set $settings "node_secret_file" (printf "/etc/loginson/secrets/node/%s" .Values.secrets.node.key) -}}
{{- end -}}
{{- else -}}
{{- $kafka := dict "brokers" .Values.cluster.kafka.brokers "partitions" (int .Values.cluster.kafka.partitions) -}}
{{- $objects := dict "endpoint" .Values.cluster.objects.endpoint "bucket" .Values.cluster.objects.bucket -}}
{{- if .Values.cluster.objects.secret -}}
{{- $_ := set $objects "access_key_file" "/etc/loginson/secrets/objects/access-key" -}}
{{- $_ := set $objects "secret_key_file" "/etc/loginson/secrets/objects/secret-key" -}}
{{- end -}}
{{- $postgresql := dict "connection" .Values.cluster.postgresql.connection -}}
{{- if .Values.cluster.postgresql.secret -}}
{{- $_ := set $postgresql "password_file" "/etc/loginson/secrets/postgresql/password" -}}
{{- end -}}
{{- $cluster := dict "roles" (list "store" "query") "kafka" $kafka "objects" $objects "postgresql" $postgresql -}}
{{- if .Values.secrets.token.name -}}
{{- $_ := set $cluster "token_file" (printf "/etc/loginson/secrets/token/%s" .Values.secrets.token.key) -}}
{{- end -}}
{{- if and .Values.secrets.tls.name .Values.secrets.tls.ca -}}
{{- $_ := set $cluster "ca_file" (printf "/etc/loginson/secrets/tls/%s" .Values.secrets.tls.ca) -}}
{{- end -}}
{{- $_ := set $settings "cluster" $cluster -}}
{{- end -}}
{{- include "loginson.merged" (dict "own" $settings "given" .Values.settings "key" "settings") -}}
{{- end -}}

{{/* Settings of the server that answers for several stores. It keeps no lines of others. */}}
{{- define "loginson.querySettings" -}}
{{- $scheme := printf "%s://" (include "loginson.scheme" .) -}}
{{- $stores := dict "addresses" (include "loginson.servers" (dict "root" . "scheme" $scheme "port" 9514) | fromJsonArray) -}}
{{- if .Values.secrets.token.name -}}
{{- $_ := set $stores "token_file" (printf "/etc/loginson/secrets/token/%s" .Values.secrets.token.key) -}}
{{- end -}}
{{- if and .Values.secrets.tls.name .Values.secrets.tls.ca -}}
{{- $_ := set $stores "ca_file" (printf "/etc/loginson/secrets/tls/%s" .Values.secrets.tls.ca) -}}
{{- end -}}
{{- $settings := dict "data_dir" "/var/lib/loginson" "http_hosts" (include "loginson.hosts" . | fromJsonArray) "stores" $stores -}}
{{- if .Values.secrets.tls.name -}}
{{- $_ := set $settings "http_tls" (dict "certificate" "/etc/loginson/secrets/tls/tls.crt" "key" "/etc/loginson/secrets/tls/tls.key") -}}
{{- end -}}
{{- include "loginson.merged" (dict "own" $settings "given" .Values.settings "key" "settings") -}}
{{- end -}}

{{/* Settings of the collector on every node. */}}
{{- define "loginson.collectorSettings" -}}
{{- $files := dict "paths" (list "/var/log/pods/*/*/*.log") "fields_env" (dict "k8s.node.name" "NODE_NAME") -}}
{{- if .Values.collector.exclude -}}
{{- $_ := set $files "exclude" .Values.collector.exclude -}}
{{- end -}}
{{- $collect := dict "spool_dir" "/var/lib/loginson-collector" "spool_bytes_max" .Values.collector.spoolSize -}}
{{- $settings := dict "files" (list $files) -}}
{{- if and (eq .Values.mode "cluster") (not .Values.collector.stores) -}}
{{- $_ := set $settings "cluster" (dict "kafka" (dict "brokers" .Values.cluster.kafka.brokers "partitions" (int .Values.cluster.kafka.partitions))) -}}
{{- else -}}
{{- $own := include "loginson.servers" (dict "root" . "scheme" "" "port" 9515) | fromJsonArray -}}
{{- $_ := set $collect "stores" (.Values.collector.stores | default $own) -}}
{{- if .Values.secrets.node.name -}}
{{- $_ := set $settings "node_secret_file" (printf "/etc/loginson/secrets/node/%s" .Values.secrets.node.key) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $settings "collect" $collect -}}
{{- include "loginson.merged" (dict "own" $settings "given" .Values.collector.settings "key" "collector.settings") -}}
{{- end -}}

{{/* Volumes of Secrets: (dict "root" $ "names" (list "node" …)). */}}
{{- define "loginson.secretVolumes" -}}
{{- $values := .root.Values -}}
{{- $known := dict "node" $values.secrets.node.name "token" $values.secrets.token.name "tls" $values.secrets.tls.name "objects" $values.cluster.objects.secret "postgresql" $values.cluster.postgresql.secret -}}
{{- range .names }}
{{- if get $known . }}
- name: secret-{{ . }}
  secret: {secretName: {{ get $known . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- if .more }}
{{- range $values.secrets.more }}
- name: more-{{ . }}
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- end -}}

{{- define "loginson.secretMounts" -}}
{{- $values := .root.Values -}}
{{- $known := dict "node" $values.secrets.node.name "token" $values.secrets.token.name "tls" $values.secrets.tls.name "objects" $values.cluster.objects.secret "postgresql" $values.cluster.postgresql.secret -}}
{{- range .names }}
{{- if get $known . }}
- {name: secret-{{ . }}, mountPath: /etc/loginson/secrets/{{ . }}, readOnly: true}
{{- end }}
{{- end }}
{{- if .more }}
{{- range $values.secrets.more }}
- {name: more-{{ . }}, mountPath: /etc/loginson/secrets/{{ . }}, readOnly: true}
{{- end }}
{{- end }}
{{- end -}}

{{/* What all pods have in common. */}}
{{- define "loginson.placed" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end -}}
