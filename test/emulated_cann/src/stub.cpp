// SPDX-License-Identifier: Apache-2.0
// A library that only has to be there.
