/**
 * A kind of billing system, such as `webhook`. It is the name of its folder in
 * `operator/destinations/` and `spec.type` of a BillingDestination.
 */
export type DestinationType = string;
