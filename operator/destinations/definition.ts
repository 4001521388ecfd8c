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
 * Everything there is to know of one type of destination: `<type>/definition.ts` exports it, and
 * `registry.ts` lists it. `Options` are its settings, `Spec` is its block of a BillingDestination,
 * the field of the type's name.
 *
 * What takes options or a block is a method: methods may be stricter than the list of all types asks,
 * and only what a type has made itself is ever handed back to it.
 */
export interface DestinationDefinition<Options = unknown, Spec = unknown>
  extends ConfigurableDestination<Options> {
  /** Absent where BillingDestinations of the type have no block. */
  readonly spec?: SpecDefinition<Options, Spec>;
  /** The mode of the key that its options hold, where keys of the billing system tell. */
  keyMode?(options: Options): KeyMode | undefined;
  /** What it can do with late usage, beside sending it and holding it back (docs/explanation/delivery.md#late-usage). */
  readonly late?: readonly LateWay[];
  /** The options for usage of another cluster than the one they were made for. Absent where none names a cluster. */
  forCluster?(options: Options, clusterName: string): Options;
  /** Throws a TypeError for options that cannot be used. */
  create(name: string, options: Options, context: DestinationContext): Destination;
  /** Absent where the billing system sends no alerts. */
  readonly alerts?: AlertsDefinition;
}

export interface KeyMode {
  readonly mode: BillingMode;
  /** How keys of that mode begin, to name it without showing the key. */
  readonly prefix: string;
}

export interface SpecDefinition<Options, Spec> {
  /** The keys of Secrets that a block names, but for those of its `webhookSecretRefs`. */
  secretRefs(spec: Spec): readonly SecretKeyRef[];
  translate(spec: Spec, reads: SecretReads, defaults: DestinationDefaults): Translation<Options>;
}

/** The messages that a billing system posts to `/webhooks/{spelling}`. */
export interface AlertsDefinition {
  /** The variable whose credentials verify them; `webhookSecretRefs` in a BillingDestination. */
  readonly secretVariable: string;
  /** Whether the signature covers the message's id. Where it does not, the same body is the same message too. */
  readonly signsId: boolean;
  /** `now` in milliseconds since the epoch. */
  verify(request: SignedRequest, secrets: readonly Secret[], now: number): Verification;
  /** Where it may sign with a key of its own instead, whose public half it publishes (`Destination.publicKey`). */
  readonly publicKey?: {
    /** Whether a message says that it is signed so. */
    isUsed(request: SignedRequest): boolean;
    /** `keys` are PEM. */
    verify(request: SignedRequest, keys: readonly string[]): Verification;
  };
  /** Reads a message whose signature is right. */
  parse(request: SignedRequest): ParsedAlert;
}
