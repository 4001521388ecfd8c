import { readFile, writeFile } from 'node:fs/promises';
import { compile, type JSONSchema } from 'json-schema-to-typescript';
import { parse } from 'yaml';
import { BUILT_IN_METRICS } from '../operator/model/catalog.ts';

/** Path of the generated types in the repository. */
export const TYPES_FILE = 'operator/settings/custom-resources.generated.ts';

/** Path of the schema with the codes of the built-in metrics. */
export const CODES_FILE = 'crds/meteringpolicies.yaml';

const CRDS = ['billingdestinations', 'tenantoverrides', 'meteringpolicies', 'pricebooks'];

const BANNER = `// Generated from crds/ by "npm run generate". Change the YAML there, never this file.`;

interface Crd {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly [
      { readonly schema: { readonly openAPIV3Schema: { readonly properties: Properties } } },
    ];
  };
}

type Properties = Readonly<Record<string, JSONSchema>>;

/**
 * TypeScript types of every custom resource's spec and status: `<Kind>Spec` and `<Kind>Status`.
 * `crds/` is the only source of the schemas.
 */
export async function generateTypes(): Promise<string> {
  const parts = await Promise.all(CRDS.map(typesOf));
  return [BANNER, ...parts.flat()].join('\n\n');
}

/**
 * Returns the text of {@link CODES_FILE}: the codes that `customMetrics` may not use, because the
 * catalogue has them. The API server can refuse them only if the schema lists them.
 */
export function withMeasuredCodes(yaml: string): string {
  return yaml.replace(/^( *)!\(self in \['tenant_[^\]]*\]\)$/m, (_rule, indent: string) => {
    const lines = BUILT_IN_METRICS.reduce<string[]>((wrapped, { code }) => {
      const last = wrapped.at(-1) ?? '';
      const longer = `${last}${last === '' ? '' : ' '}'${code}',`;
      return longer.length > CODES_WIDTH
        ? [...wrapped, `'${code}',`]
        : [...wrapped.slice(0, -1), longer];
    }, []);
    return `${indent}!(self in [${lines.join(`\n${indent}`).slice(0, -1)}])`;
  });
}

const CODES_WIDTH = 100;

async function typesOf(file: string): Promise<readonly string[]> {
  const crd = parse(
    await readFile(new URL(`../crds/${file}.yaml`, import.meta.url), 'utf8'),
  ) as Crd;
  const { kind } = crd.spec.names;
  const { spec = {}, status = {} } = crd.spec.versions[0].schema.openAPIV3Schema.properties;
  return [await typeOf(`${kind}Spec`, spec), await typeOf(`${kind}Status`, status)];
}

async function typeOf(name: string, schema: JSONSchema): Promise<string> {
  const text = await compile(withoutDescriptions(schema), name, {
    bannerComment: '',
    additionalProperties: false,
    // Tuples for every allowed length do not help a reader.
    ignoreMinAndMaxItems: true,
    style: { singleQuote: true, printWidth: 100 },
  });
  return text.trim();
}

/**
 * The YAML alone describes the fields. Repeated here, descriptions would fill three quarters of the
 * file.
 */
function withoutDescriptions(schema: JSONSchema): JSONSchema {
  const text = JSON.stringify(schema, (key, value: unknown) =>
    (key === 'description' && typeof value === 'string') || key === 'minItems' || key === 'maxItems'
      ? undefined
      : value,
  );
  return JSON.parse(text) as JSONSchema;
}

if (import.meta.main) {
  const codes = new URL(`../${CODES_FILE}`, import.meta.url);
  await writeFile(codes, withMeasuredCodes(await readFile(codes, 'utf8')));
  await writeFile(new URL(`../${TYPES_FILE}`, import.meta.url), `${await generateTypes()}\n`);
}
