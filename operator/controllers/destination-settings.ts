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

/** The names of the Secrets that a spec refers to, each once. */
export function secretNames(spec: BillingDestinationSpec): readonly string[] {
  const definition = definitionOf(spec.type);
  const block = blockOf(spec);
  if (definition?.spec === undefined || block === undefined) return [];
  const refs = [...definition.spec.secretRefs(block), ...webhookSecretRefs(definition, block)];
  return [...new Set(refs.map(({ name }) => name))].toSorted();
}

/** The settings that a BillingDestination asks for. */
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

/** Names a field that has no effect any more, and how to go on; undefined where the spec asks for none. */
function removedField({ managePrices, aggregate }: BillingDestinationSpec): string | undefined {
  if (managePrices === true) {
    return 'spec.managePrices: removed: "true"; set prices at the billing system and delete this field';
  }
  if (aggregate !== '1h') return undefined;
  return 'spec.aggregate: removed: "1h"; make windows longer by COLLECTION_INTERVAL where the rate limit is low, and delete this field';
}

/** The block of the spec's own type: the field of the type's name. */
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

/** The secrets that verify the alerts of a billing system: the same field in the block of each that sends some. */
function webhookSecretRefs(
  { alerts }: DestinationDefinition,
  block: unknown,
): readonly SecretKeyRef[] {
  if (alerts === undefined || !isRecord(block) || block['webhookSecretRefs'] === undefined)
    return [];
  // As the CustomResourceDefinition has it, whose schema the API server holds against every object.
  return block['webhookSecretRefs'] as readonly SecretKeyRef[];
}

/** Only with CustomResourceDefinitions of another release than the operator's. */
function unknownType(type: string): InvalidSpec {
  const fix = 'apply the CustomResourceDefinitions of the release that the operator runs';
  return invalidSpec('InvalidSpec', `spec.type: unknown to this operator: "${type}"; ${fix}`);
}
