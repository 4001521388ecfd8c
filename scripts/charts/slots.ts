import { stringify } from 'yaml';
import type { KubernetesObject } from './kustomize.ts';

/**
 * Slots in a manifest that Helm fills. A slot is a text that YAML writes unchanged, so that objects
 * are serialized first and the templates put into the text afterwards.
 */
type SlotKind = 'inline' | 'yaml' | 'optional';

function slot(kind: SlotKind, template: string): string {
  return `slot_${kind}_${Buffer.from(template).toString('hex')}_`;
}

/** A template in place of a scalar, such as `{{ .Release.Namespace }}`. */
export function inline(template: string): string {
  return slot('inline', template);
}

/** An expression that Helm writes as YAML under its key. */
export function yaml(expression: string): string {
  return slot('yaml', expression);
}

/** As {@link yaml}, without the key if the value is empty. */
export function optional(expression: string): string {
  return slot('optional', expression);
}

/**
 * Serializes objects as a Helm template: escapes text that looks like a template, and fills in the
 * slots.
 */
export function templateOf(objects: readonly KubernetesObject[]): string {
  return objects.map((object) => `---\n${fill(stringify(object, { lineWidth: 0 }))}`).join('');
}

const COMPLETE_VALUE = /^( *)(- )?([\w-]+): slot_(yaml|optional)_([0-9a-f]+)_$/gm;
const INLINE = /slot_inline_([0-9a-f]+)_/g;

function fill(text: string): string {
  return text
    .replaceAll('{{', '{{ "{{" }}')
    .replaceAll(COMPLETE_VALUE, (...groups: readonly string[]) => {
      const [, space = '', dash = '', key = '', kind = '', encoded = ''] = groups;
      const indent = space.length + dash.length + 2;
      const line = (value: string): string =>
        `${space}${dash}${key}: {{- toYaml ${value} | nindent ${indent} }}`;
      if (kind === 'yaml') return line(`(${decode(encoded)})`);
      return `${space}{{- with ${decode(encoded)} }}\n${line('.')}\n${space}{{- end }}`;
    })
    .replaceAll(INLINE, (_, encoded: string) => decode(encoded));
}

function decode(encoded: string): string {
  return Buffer.from(encoded, 'hex').toString();
}
