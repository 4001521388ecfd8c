import { isRecord } from '../model/is-record.ts';
import { quote } from '../model/quote.ts';
import { Secret } from '../model/secret.ts';
import { parseField, type ParseProblem } from './parsers/parser.ts';
import { currency } from './parsers/scalars.ts';
import { baseUrl, maskUrl } from './parsers/urls.ts';
import type { Setting, SettingsOf, SettingTable } from './table/setting.ts';

/** The result of reading a spec. An invalid one changes nothing in force. */
export type Translation<T> = { readonly kind: 'settings'; readonly settings: T } | InvalidSpec;

/** Why a spec is invalid; shown in the condition `Stalled`. */
export interface InvalidSpec {
  readonly kind: 'invalid';
  /** CamelCase, for machines. */
  readonly reason: string;
  /** `what: where: "input"; how to fix it`; never a secret. */
  readonly message: string;
}

export function invalidSpec(reason: string, message: string): InvalidSpec {
  return { kind: 'invalid', reason, message };
}

/**
 * The problem of a field that a parser refuses. The API server refuses it too, unless its schema is
 * older.
 */
export function invalidField(field: string, problem: ParseProblem, input: string): InvalidSpec {
  const quoted = problem.input ?? input;
  const where = `${field}${problem.at ?? ''}`;
  return invalidSpec('InvalidSpec', `${where}: ${problem.what}: "${quoted}"; ${problem.fix}`);
}

/** Removed fields of a spec, each with the field to set instead. */
const REMOVED: Readonly<Record<string, string>> = {
  ownNodeTrust: 'privateNodeTrust',
  ownNodeLabels: 'privateNodeLabels',
  ownNodeDowntimePercent: 'privateNodeDowntimePercent',
  maxOwnNodes: 'maxPrivateNodes',
};

/** Returns the first removed field that a spec has, with how to go on; undefined without one. */
function removedField(path: string, spec: object): InvalidSpec | undefined {
  for (const [field, instead] of Object.entries(REMOVED)) {
    const value = valueAt(spec, [field]);
    if (value === undefined) continue;
    const fix = `set ${path}.${instead} and delete this field`;
    return invalidSpec(
      'InvalidSpec',
      `${path}.${field}: removed: ${quote(typeof value === 'string' ? value : JSON.stringify(value))}; ${fix}`,
    );
  }
  return undefined;
}

/**
 * Reads the settings of a table from a custom resource, by key. `below` is the path of its fields,
 * such as `MeteringPolicy spec` (docs/reference/configuration.md). Refuses removed fields and
 * ignores other ones.
 */
export function tableFields<T extends SettingTable>(
  table: T,
  below: 'MeteringPolicy spec' | 'TenantOverride spec.metering',
  spec: object,
): Translation<Partial<SettingsOf<T>>> {
  const removed = removedField(below.slice(below.indexOf(' ') + 1), spec);
  if (removed !== undefined) return removed;
  const values: Record<string, unknown> = {};
  for (const [key, { fields = [], parser }] of Object.entries<Setting>(table)) {
    const field = fields.find((one) => one.startsWith(`${below}.`));
    const value = field && valueAt(spec, field.slice(below.length + 1).split('.'));
    if (field === undefined || value === undefined) continue;
    const parsed = parseField(parser, value);
    const [, path = ''] = field.split(' ');
    const shown = typeof value === 'string' ? value : JSON.stringify(value);
    if (parsed.kind === 'problem') return invalidField(path, parsed, shown);
    values[key] = parsed.value;
  }
  // Each value comes from the parser of its own setting, so it has the declared type.
  return { kind: 'settings', settings: values as Partial<SettingsOf<T>> };
}

function valueAt(object: unknown, path: readonly string[]): unknown {
  const [first, ...others] = path;
  if (first === undefined) return object;
  return isRecord(object) ? valueAt(object[first], others) : undefined;
}

export type FieldValue<T> = { readonly kind: 'value'; readonly value: T } | InvalidSpec;

/** Reads a field with the base URL of an API. */
export function baseUrlField(field: string, text: string): FieldValue<string> {
  const parsed = baseUrl().parse(text);
  return parsed.kind === 'value' ? parsed : invalidField(field, parsed, maskUrl(text));
}

/** Reads a field with an ISO 4217 code. */
export function currencyField(field: string, text: string): FieldValue<string> {
  const parsed = currency().parse(text);
  return parsed.kind === 'value' ? parsed : invalidField(field, parsed, text);
}

/** One key of a Secret, as specs name it. */
export interface SecretKeyRef {
  readonly name: string;
  readonly key: string;
}

/** The result of reading a Secret. */
export type SecretRead =
  | { readonly kind: 'found'; readonly values: ReadonlyMap<string, Secret> }
  | { readonly kind: 'missing' }
  /** A Secret of the operator itself (docs/explanation/security.md#d-4). */
  | { readonly kind: 'refused' }
  /** Unknown. `reason` is one line, safe to show. */
  | { readonly kind: 'failed'; readonly reason: string };

/** The results for the Secrets that a spec names, by name. */
export type SecretReads = ReadonlyMap<string, SecretRead>;

/** A signing key or token travels in headers and signatures, so it must be printable. */
const CREDENTIAL = /^[!-~]+$/;
const CERTIFICATES = /^-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----\s*$/;
/** The characters of a header value. */
const HEADER_VALUE = /^[\t -~]+$/;

/** The credential that a field references. */
export function credentialField(
  field: string,
  ref: SecretKeyRef,
  reads: SecretReads,
): FieldValue<Secret> {
  return secretField(field, ref, reads, CREDENTIAL, 'printable characters without spaces');
}

/** The credentials that the entries of a field reference. */
export function credentialsField(
  field: string,
  refs: readonly SecretKeyRef[] | undefined,
  reads: SecretReads,
): FieldValue<readonly Secret[]> {
  const secrets: Secret[] = [];
  for (const [index, ref] of (refs ?? []).entries()) {
    const found = credentialField(`${field}[${index}]`, ref, reads);
    if (found.kind === 'invalid') return found;
    secrets.push(found.value);
  }
  return { kind: 'value', value: secrets };
}

/** The certificates, PEM, that a field references. */
export function certificateField(
  field: string,
  ref: SecretKeyRef,
  reads: SecretReads,
): FieldValue<Secret> {
  return secretField(field, ref, reads, CERTIFICATES, 'certificates in PEM');
}

/** The headers of a field, by name. A value may contain spaces: `Bearer abc`. */
export function headersField(
  field: string,
  headers:
    | readonly {
        readonly name: string;
        readonly value?: string;
        readonly valueSecretRef?: SecretKeyRef;
      }[]
    | undefined,
  reads: SecretReads,
): FieldValue<ReadonlyMap<string, Secret>> {
  const accepted = 'printable ASCII characters on one line';
  const values = new Map<string, Secret>();
  for (const [index, { name, value = '', valueSecretRef: ref }] of (headers ?? []).entries()) {
    const found: FieldValue<Secret> =
      ref === undefined
        ? { kind: 'value', value: new Secret(value) }
        : secretField(`${field}[${index}].valueSecretRef`, ref, reads, HEADER_VALUE, accepted);
    if (found.kind === 'invalid') return found;
    values.set(name, found.value);
  }
  return { kind: 'value', value: values };
}

function secretField(
  field: string,
  { name, key }: SecretKeyRef,
  reads: SecretReads,
  form: RegExp,
  accepted: string,
): FieldValue<Secret> {
  const read = reads.get(name);
  if (read?.kind === 'refused') {
    const fix = 'put the credential into a separate Secret';
    return invalidSpec(
      'SecretRefused',
      `${field}: a Secret of the operator’s own: "${name}"; ${fix}`,
    );
  }
  if (read?.kind !== 'found') {
    const fix = 'create it in the namespace of the operator';
    return invalidSpec('SecretNotFound', `${field}: no such Secret: "${name}"; ${fix}`);
  }
  const value = read.values.get(key);
  if (value === undefined) {
    const fix = `add the key to Secret "${name}"`;
    return invalidSpec('SecretKeyNotFound', `${field}: no such key: "${key}"; ${fix}`);
  }
  if (!form.test(value.reveal())) {
    const where = `key "${key}" of Secret "${name}"`;
    return invalidSpec(
      'InvalidSecret',
      `${field}: not a usable credential: ${where}; use ${accepted}`,
    );
  }
  return { kind: 'value', value };
}
