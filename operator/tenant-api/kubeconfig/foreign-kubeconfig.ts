import type { Secret } from '../../model/secret.ts';

/** What a kubeconfig that somebody else wrote may say: an address and a credential, as values. */
export interface ForeignKubeconfig {
  /** https, without credentials, query or fragment. */
  readonly server: URL;
  /** PEM; absent where the authorities of the system are meant. */
  readonly certificateAuthority?: string;
  readonly tlsServerName?: string;
  readonly token?: Secret;
  readonly client?: ClientCertificate;
  /** When the first of its credentials ends, milliseconds since the epoch. */
  readonly validUntil?: number;
}

export interface ClientCertificate {
  /** PEM. */
  readonly certificate: string;
  /** PEM. */
  readonly key: Secret;
}
