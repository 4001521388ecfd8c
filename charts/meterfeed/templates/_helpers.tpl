{{- define "meterfeed.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest }}
{{- else -}}
{{ printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) }}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* The variables as texts. A ConfigMap is no place for credentials. */}}
{{- define "meterfeed.settings" -}}
{{- $settings := dict -}}
{{- range $name, $value := .Values.settings -}}
{{- if has $name (include "meterfeed.credentials" $ | fromJsonArray) -}}
{{- fail (printf "settings: a credential: %q: put it into the Secret \"meterfeed\" in the namespace %q, under this name as its key" $name $.Release.Namespace) -}}
{{- end -}}
{{- $settings = set $settings $name (toString $value) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{- /* Ends with the hash that kustomize would give the content, so that a change restarts the operator. */}}
{{- define "meterfeed.settingsName" -}}
{{- $content := dict "data" (include "meterfeed.settings" . | fromJson) "kind" "ConfigMap" "name" "" | toJson -}}
{{- $hash := $content | sha256sum | trunc 10 -}}
meterfeed-settings-{{ $hash | replace "0" "g" | replace "1" "h" | replace "3" "k" | replace "a" "m" | replace "e" "t" }}
{{- end }}

{{- /* The claim of the StatefulSet that is there: it cannot be changed in place, and holds the ledger. */}}
{{- define "meterfeed.existingClaim" -}}
{{- $existing := lookup "apps/v1" "StatefulSet" .Release.Namespace "meterfeed" | default dict -}}
{{- $claims := dig "spec" "volumeClaimTemplates" list $existing -}}
{{- if $claims -}}
{{- toJson (first $claims).spec -}}
{{- else -}}
{}
{{- end -}}
{{- end }}

{{- define "meterfeed.storageSize" -}}
{{- $claim := include "meterfeed.existingClaim" . | fromJson -}}
{{- dig "resources" "requests" "storage" .Values.storage.size $claim -}}
{{- end }}

{{- define "meterfeed.storageClass" -}}
{{- $claim := include "meterfeed.existingClaim" . | fromJson -}}
{{- if $claim -}}
{{- dig "storageClassName" "" $claim -}}
{{- else -}}
{{- .Values.storage.storageClassName -}}
{{- end -}}
{{- end }}
