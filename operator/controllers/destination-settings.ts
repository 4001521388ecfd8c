import type { DestinationDefaults } from '../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../settings/custom-resources.generated.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import {
  credentialsField,
  type InvalidSpec,
  invalidSpec,
  type SecretKeyRef,
  type SecretReads,
  type Translation,
} from '../settings/spec-fields.ts';
import type { DestinationDefinition, SpecDefinition } from '../destinations/definition.ts';
import { lateProblem } from '../destinations/late.ts';
import { modeProblem } from '../destinations/mode.ts';
import { definitionOf } from '../destinations/registry.ts';
import { isRecord } from '../model/is-record.ts';

/** Returns the names of the Secrets that a spec refers to, each once. */
export function secretNames(spec: BillingDestinationSpec): readonly string[] {
  const definition = definitionOf(spec.type);
  const block = blockOf(spec);
  if (definition?.spec === undefined || block === undefined) return [];
  const refs = [...definition.spec.secretRefs(block), ...webhookSecretRefs(definition, block)];
  return [...new Set(refs.map(({ name }) => name))].toSorted();
}

/** Translates the spec of a BillingDestination into settings. */
export function translateDestination(
  name: string,
  spec: BillingDestinationSpec,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<DestinationSettings> {
  const { type } = spec;
  const removed = removedField(spec);
  if (removed !== undefined) return invalidSpec('InvalidSpec', removed);
  const definition = definitionOf(type);
  if (definition === undefined) return unknownType(type);
  const block = blockOf(spec);
  if (definition.spec !== undefined && block === undefined) {
    return invalidSpec('InvalidSpec', `spec.${type}: missing; it is required by type ${type}`);
  }
  const refs = webhookSecretRefs(definition, block);
  const webhookSecrets = credentialsField(`spec.${type}.webhookSecretRefs`, refs, reads);
  if (webhookSecrets.kind === 'invalid') return webhookSecrets;
  const options = translateBlock(definition.spec, block, reads, defaults);
  if (options.kind === 'invalid') return options;
  const { mode } = spec;
  const problem = modeProblem(definition, {
    options: options.settings,
    mode,
  });
  const late = lateProblem(definition, spec.late);
  if (problem !== undefined || late !== undefined) {
    const all = [problem && `spec.mode: ${problem}`, late && `spec.late: ${late}`];
    const reason = problem === undefined ? 'InvalidSpec' : 'ModeMismatch';
    return invalidSpec(reason, all.filter((one) => one !== undefined).join('; '));
  }
  return {
    kind: 'settings',
    settings: {
      name,
      type,
      suspend: spec.suspend ?? false,
      startFrom: spec.startFrom ?? 'now',
      mode,
      planChange: spec.planChange,
      late: spec.late,
      metrics: spec.metrics,
      ...(webhookSecrets.value.length > 0 && { webhookSecrets: webhookSecrets.value }),
      options: options.settings,
    },
  };
}

/** Returns a message about a removed field with how to go on; undefined if the spec has none. */
function removedField({ managePrices, aggregate }: BillingDestinationSpec): string | undefined {
  if (managePrices === true) {
    return 'spec.managePrices: removed: "true"; set prices at the billing system and delete this field';
  }
  if (aggregate !== '1h') return undefined;
  return 'spec.aggregate: removed: "1h"; make windows longer with COLLECTION_INTERVAL if the rate limit is low, and delete this field';
}

/** Returns the block of the spec's type: the field with the name of the type. */
function blockOf(spec: BillingDestinationSpec): unknown {
  return Object.entries(spec).find(([field]) => field === spec.type)?.[1];
}

function translateBlock(
  definition: SpecDefinition<unknown, unknown> | undefined,
  block: unknown,
  reads: SecretReads,
  defaults: DestinationDefaults,
): Translation<unknown> {
  if (definition === undefined) return { kind: 'settings', settings: {} };
  return definition.translate(block, reads, defaults);
}

/** Returns the references to secrets that verify alerts. Types with alerts share this field. */
function webhookSecretRefs(
  { alerts }: DestinationDefinition,
  block: unknown,
): readonly SecretKeyRef[] {
  if (alerts === undefined || !isRecord(block) || block['webhookSecretRefs'] === undefined)
    return [];
  // The API server validates every object against the schema of the CustomResourceDefinition.
  return block['webhookSecretRefs'] as readonly SecretKeyRef[];
}

/** Returns the error for an unknown type. It needs CustomResourceDefinitions of another release. */
function unknownType(type: string): InvalidSpec {
  const fix = 'apply the CustomResourceDefinitions of the release that the operator runs';
  return invalidSpec('InvalidSpec', `spec.type: unknown to this operator: "${type}"; ${fix}`);
}
