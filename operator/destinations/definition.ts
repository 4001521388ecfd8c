import type {
  ConfigurableDestination,
  DestinationDefaults,
} from '../settings/configurable-destination.ts';
import type { BillingMode } from '../settings/settings.ts';
import type { SecretKeyRef, SecretReads, Translation } from '../settings/spec-fields.ts';
import type { Secret } from '../model/secret.ts';
import type { ParsedAlert } from './alerts.ts';
import type { Destination, DestinationContext } from './destination.ts';
import type { LateWay } from './late.ts';
import type { SignedRequest, Verification } from './signatures.ts';

/**
 * Everything about one type of destination. `<type>/definition.ts` exports it and `registry.ts`
 * lists it. `Options` are its settings. `Spec` is its block of a BillingDestination, in the field
 * of the type's name.
 *
 * Members that take options or a block are methods: TypeScript then accepts their stricter
 * parameters in the list of all types. A definition receives only options and blocks of its own
 * type.
 */
export interface DestinationDefinition<Options = unknown, Spec = unknown>
  extends ConfigurableDestination<Options> {
  /** Absent where BillingDestinations of the type have no block. */
  readonly spec?: SpecDefinition<Options, Spec>;
  /** Returns the mode of the key in the options, where the billing system's keys show one. */
  keyMode?(options: Options): KeyMode | undefined;
  /** Ways to bill late usage beside `send`, `hold` (docs/explanation/delivery.md#late-usage). */
  readonly late?: readonly LateWay[];
  /** Returns the options for usage of another cluster. Absent where no option names a cluster. */
  forCluster?(options: Options, clusterName: string): Options;
  /** Creates the destination. Throws a TypeError for options that cannot be used. */
  create(name: string, options: Options, context: DestinationContext): Destination;
  /** Absent where the billing system sends no alerts. */
  readonly alerts?: AlertsDefinition;
}

export interface KeyMode {
  readonly mode: BillingMode;
  /** The beginning of keys of that mode, to name a key without showing it. */
  readonly prefix: string;
}

export interface SpecDefinition<Options, Spec> {
  /** Returns the keys of Secrets that a block names, except those of its `webhookSecretRefs`. */
  secretRefs(spec: Spec): readonly SecretKeyRef[];
  translate(spec: Spec, reads: SecretReads, defaults: DestinationDefaults): Translation<Options>;
}

/** The messages that a billing system posts to `/webhooks/{spelling}`. */
export interface AlertsDefinition {
  /** Variable of the secrets that verify messages; `webhookSecretRefs` in a BillingDestination. */
  readonly secretVariable: string;
  /** True if the signature covers the message's id; else a repeated body is a repeated message. */
  readonly signsId: boolean;
  /** `now` in milliseconds since the epoch. */
  verify(request: SignedRequest, secrets: readonly Secret[], now: number): Verification;
  /** Verification by the billing system's own key, which it publishes (`Destination.publicKey`). */
  readonly publicKey?: {
    /** Returns whether a message names this kind of signature. */
    isUsed(request: SignedRequest): boolean;
    /** `keys` are PEM. */
    verify(request: SignedRequest, keys: readonly string[]): Verification;
  };
  /** Reads a message whose signature is verified. */
  parse(request: SignedRequest): ParsedAlert;
}
