import { isRecord } from '../model/is-record.ts';
import { Secret } from '../model/secret.ts';
import { parseField, type ParseProblem } from './parsers/parser.ts';
import { currency } from './parsers/scalars.ts';
import { baseUrl, maskUrl } from './parsers/urls.ts';
import type { Setting, SettingsOf, SettingTable } from './table/setting.ts';

/** What a spec came to. An invalid one changes nothing in force. */
export type Translation<T> = { readonly kind: 'settings'; readonly settings: T } | InvalidSpec;

/** Why a spec cannot be used; shown in the condition `Stalled`. */
export interface InvalidSpec {
  readonly kind: 'invalid';
  /** CamelCase, for machines. */
  readonly reason: string;
  /** `what: where: "input"; how to mend it`; never a secret. */
  readonly message: string;
}

export function invalidSpec(reason: string, message: string): InvalidSpec {
  return { kind: 'invalid', reason, message };
}

/** A field whose text a parser refuses. The API server refuses it too, unless its schema is an older one. */
export function invalidField(field: string, problem: ParseProblem, input: string): InvalidSpec {
  const quoted = problem.input ?? input;
  return invalidSpec('InvalidSpec', `${field}: ${problem.what}: "${quoted}"; ${problem.fix}`);
}

/**
 * The settings of a table that a custom resource gives, by their keys. `below` is where its fields stand, such as
 * `MeteringPolicy spec` (docs/reference/configuration.md). Fields of other settings are left alone.
 */
export function tableFields<T extends SettingTable>(
  table: T,
  below: 'MeteringPolicy spec' | 'TenantOverride spec.metering',
  spec: object,
): Translation<Partial<SettingsOf<T>>> {
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
  // Each value was read by the parser of its own setting, so each has the type it declares.
  return { kind: 'settings', settings: values as Partial<SettingsOf<T>> };
}

function valueAt(object: unknown, path: readonly string[]): unknown {
  const [first, ...others] = path;
  if (first === undefined) return object;
  return isRecord(object) ? valueAt(object[first], others) : undefined;
}

export type FieldValue<T> = { readonly kind: 'value'; readonly value: T } | InvalidSpec;

/** A field that holds the base address of an API. */
export function baseUrlField(field: string, text: string): FieldValue<string> {
  const parsed = baseUrl().parse(text);
  return parsed.kind === 'value' ? parsed : invalidField(field, parsed, maskUrl(text));
}

/** A field that holds an ISO 4217 code. */
export function currencyField(field: string, text: string): FieldValue<string> {
  const parsed = currency().parse(text);
  return parsed.kind === 'value' ? parsed : invalidField(field, parsed, text);
}

/** One key of a Secret, as specs name it. */
export interface SecretKeyRef {
  readonly name: string;
  readonly key: string;
}

/** What reading a Secret came to. */
export type SecretRead =
  | { readonly kind: 'found'; readonly values: ReadonlyMap<string, Secret> }
  | { readonly kind: 'missing' }
  /** It is the operator's own (docs/explanation/security.md#d-4). */
  | { readonly kind: 'refused' }
  /** Not known: `reason` is one line, safe to show. */
  | { readonly kind: 'failed'; readonly reason: string };

/** What was read of the Secrets that a spec names, by name. */
export type SecretReads = ReadonlyMap<string, SecretRead>;

/** A signing key or token travels in headers and signatures: printable, and nothing else. */
const CREDENTIAL = /^[!-~]+$/;
const CERTIFICATES = /^-----BEGIN CERTIFICATE-----[\s\S]*-----END CERTIFICATE-----\s*$/;
/** What a header's value may hold. */
const HEADER_VALUE = /^[\t -~]+$/;

/** The credential that a field names. */
export function credentialField(
  field: string,
  ref: SecretKeyRef,
  reads: SecretReads,
): FieldValue<Secret> {
  return secretField(field, ref, reads, CREDENTIAL, 'printable characters without spaces');
}

/** The credentials that the entries of a field name. */
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

/** The certificates, PEM, that a field names. */
export function certificateField(
  field: string,
  ref: SecretKeyRef,
  reads: SecretReads,
): FieldValue<Secret> {
  return secretField(field, ref, reads, CERTIFICATES, 'certificates in PEM');
}

/** A header as specs name it: with its value, or with the key of a Secret that holds the value. */
export interface HeaderSpec {
  readonly name: string;
  readonly value?: string;
  readonly valueSecretRef?: SecretKeyRef;
}

/** The headers that a field lists, by name. A value may hold spaces: `Bearer abc`. */
export function headersField(
  field: string,
  headers: readonly HeaderSpec[] | undefined,
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
    const mend = 'put what is needed into a Secret of its own';
    return invalidSpec(
      'SecretRefused',
      `${field}: a Secret of the operator’s own: "${name}"; ${mend}`,
    );
  }
  if (read?.kind !== 'found') {
    const mend = 'create it in the namespace of the operator';
    return invalidSpec('SecretNotFound', `${field}: no such Secret: "${name}"; ${mend}`);
  }
  const value = read.values.get(key);
  if (value === undefined) {
    const mend = `add the key to Secret "${name}"`;
    return invalidSpec('SecretKeyNotFound', `${field}: no such key: "${key}"; ${mend}`);
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
